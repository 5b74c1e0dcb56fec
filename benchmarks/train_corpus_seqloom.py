"""The worker of ``train_corpus.py`` for seqloom: what ``seqloom train`` does with a configuration."""

from math import gcd
from pathlib import Path
from typing import Any

from harness.worker import answer

from seqloom.config import make_config
from seqloom.train.checkpoint import load_weights
from seqloom.train.display import Display
from seqloom.train.folder import Lines
from seqloom.train.start import train as train_run


def describe(case: str, corpus: str, sizes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ``model`` and ``data`` of a configuration."""
    embedding, hidden = {"size": sizes["embedding"]}, {"size": sizes["hidden"]}
    parts = {"source": embedding, "encoder": hidden, "decoder": hidden, "output": embedding}
    parts["output"] = parts["output"] | {"tied": False, "label_smoothing": 0.0}
    if case == "g2p":
        # Yoyodyne's: attention asked by the last state, its context into the cell, logits from the state.
        parts["decoder"] = hidden | {
            "context": "previous",
            "into": "cell",
            "readout": "state",
            "input_feeding": False,
            "initial": "learned",
        }
        parts["bridge"] = {"name": "none"}
    files = {"train": [f"{corpus}/train.tsv"], "dev": [f"{corpus}/dev.tsv"], "source": "character"}
    if case == "multi30k":
        files = {name: [f"{corpus}/{name}.de", f"{corpus}/{name}.en"] for name in ("train", "dev")}
        files["source"] = "symbols"
    return {"preset": "recurrent", "dropout": sizes["dropout"], **parts}, {**files, "target": "symbols"}


def train(
    *, case: str, corpus: str, folder: str, sizes: dict[str, Any], seed: int, warm_up: int, span: int
) -> dict[str, Any]:
    """Train on a corpus, and time ``span`` updates after a ``warm_up``."""
    model, data = describe(case, corpus, sizes)
    config = make_config(
        {
            "seed": seed,
            "model": model,
            "data": data,
            "train": {
                "updates": warm_up + span,
                "batch_sentences": sizes["batch"],
                "optimiser": {"name": "adam", "rate": sizes["rate"]},
                "schedule": "constant",
                "clip": sizes["clip"],
                "evaluate_every": warm_up + span,
                "log_every": gcd(warm_up, span),
            },
            "search": "greedy",
        }
    )
    run = train_run(config, Path(folder), display=Display())
    timed = [lap for lap in Lines(run.timing) if lap["update"] > warm_up]
    return {
        "tokens": sum(lap["target_tokens"] for lap in timed),
        "seconds": sum(lap["seconds"] for lap in timed),
        "parameters": sum(tensor.numel() for tensor in load_weights(run.weights).values()),
    }


if __name__ == "__main__":
    answer({"train": train})

"""Worker of ``train_corpus.py`` for seqloom: trains a configuration as ``seqloom train`` does."""

from math import gcd
from pathlib import Path
from typing import Any

from harness.worker import answer

from seqloom.config import make_config
from seqloom.train.checkpoint import load_weights
from seqloom.train.display import Display
from seqloom.train.folder import JsonlLog
from seqloom.train.run import train as train_run


def describe(case: str, corpus: str, sizes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ``model`` and ``data`` sections of a configuration."""
    embedding, hidden = {"embedding_size": sizes["embedding"]}, {"hidden_size": sizes["hidden"]}
    parts = {"source_embedder": embedding, "encoder": hidden, "decoder": hidden, "output": embedding}
    parts["output"] = parts["output"] | {"tie_output_embeddings": False, "label_smoothing": 0.0}
    if case == "g2p":
        # As in Yoyodyne: the previous state is the query, the cell reads the context, the output layer the state.
        parts["decoder"] = hidden | {
            "context": "previous",
            "context_input": "first_layer",
            "readout": "state",
            "input_feeding": False,
            "initial_state": "learned",
        }
        parts["bridge"] = {"name": "none"}
    files = {"train": [f"{corpus}/train.tsv"], "dev": [f"{corpus}/dev.tsv"], "source_tokenizer": "character"}
    if case == "multi30k":
        files = {name: [f"{corpus}/{name}.de", f"{corpus}/{name}.en"] for name in ("train", "dev")}
        files["source_tokenizer"] = "whitespace"
    return {"preset": "recurrent", "dropout": sizes["dropout"], **parts}, {**files, "target_tokenizer": "whitespace"}


def train(
    *, case: str, corpus: str, folder: str, sizes: dict[str, Any], seed: int, warm_up: int, span: int
) -> dict[str, Any]:
    """Train on a corpus; after ``warm_up`` updates, time ``span`` updates."""
    model, data = describe(case, corpus, sizes)
    config = make_config(
        {
            "seed": seed,
            "model": model,
            "data": data,
            "train": {
                "updates": warm_up + span,
                "batch_sentences": sizes["batch"],
                "optimizer": {"name": "adam", "lr": sizes["rate"]},
                "schedule": "constant",
                "clip_grad_norm": sizes["clip"],
                "evaluate_every": warm_up + span,
                "log_every": gcd(warm_up, span),
            },
            "search": "greedy",
        }
    )
    run = train_run(config, Path(folder), display=Display())
    timed = [lap for lap in JsonlLog(run.timing) if lap["update"] > warm_up]
    return {
        "tokens": sum(lap["target_tokens"] for lap in timed),
        "seconds": sum(lap["seconds"] for lap in timed),
        "parameters": sum(tensor.numel() for tensor in load_weights(run.weights).values()),
    }


if __name__ == "__main__":
    answer({"train": train})

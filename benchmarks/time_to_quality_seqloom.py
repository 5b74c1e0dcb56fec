"""Worker of ``time_to_quality.py`` for seqloom: trains a configuration as ``seqloom train`` does."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.worker import answer
from train_corpus_seqloom import describe

from seqloom.config import make_config
from seqloom.metrics.base import EvaluationData, Floats
from seqloom.metrics.sacre import BLEU
from seqloom.registry import register
from seqloom.train.display import Display, ValidationEvent
from seqloom.train.run import train as train_run


def detokenize(tokens: str) -> str:
    """Join BPE tokens to words."""
    return tokens.replace(" ", "").replace("▁", " ").strip()


@register("metric", "bleu_of_words")
class BLEUOfWords(BLEU):
    """BLEU of the detokenized words."""

    def statistics(self, data: EvaluationData) -> Floats:
        assert data.hypotheses is not None
        words = [detokenize(text) for text in data.hypotheses]
        return super().statistics(
            replace(data, hypotheses=words, references=[[detokenize(r) for r in refs] for refs in data.references])
        )


class ReachedError(Exception):
    """The target is reached."""


class Watch(Display):
    """Records BLEU of every validation, and stops training at the target."""

    def __init__(self, goal: float) -> None:
        self.goal = goal
        self.bleu: list[float] = []
        self.updates = 0

    def validated(self, validated: ValidationEvent) -> None:
        self.bleu.append(validated.metrics[validated.primary_metric])
        self.updates = validated.update
        if self.bleu[-1] >= self.goal:
            raise ReachedError


def train(
    *, corpus: str, folder: str, sizes: dict[str, Any], seed: int, goal: float, every: int, most: int
) -> dict[str, Any]:
    """Train until BLEU on the validation set reaches ``goal``; return BLEU of every validation, and the updates."""
    model, data = describe("multi30k", corpus, sizes)
    watch = Watch(goal)
    config = make_config(
        {
            "seed": seed,
            "model": model,
            "data": data,
            "train": {
                "updates": most,
                "batch_sentences": sizes["batch"],
                "optimizer": {"name": "adam", "lr": sizes["rate"]},
                "schedule": "constant",
                "clip_grad_norm": sizes["clip"],
                "evaluate_every": every,
                "validation_metric": "bleu_of_words",
            },
        }
    )
    with contextlib.suppress(ReachedError):
        train_run(config, Path(folder), display=watch)
    return {"bleu": watch.bleu, "updates": watch.updates}


if __name__ == "__main__":
    answer({"train": train})

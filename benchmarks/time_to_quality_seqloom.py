"""The worker of ``time_to_quality.py`` for seqloom: what ``seqloom train`` does with a configuration."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.worker import answer
from train_corpus_seqloom import describe

from seqloom.config import make_config
from seqloom.metrics.base import Answers, Floats
from seqloom.metrics.sacre import BLEU
from seqloom.registry import register
from seqloom.train.display import Display, Judged
from seqloom.train.start import train as train_run


def joined(pieces: str) -> str:
    """Pieces as the words that they are."""
    return pieces.replace(" ", "").replace("▁", " ").strip()


@register("metric", "bleu_of_words")
class BLEUOfWords(BLEU):
    """BLEU of pieces joined to words."""

    def statistics(self, answers: Answers) -> Floats:
        assert answers.hypotheses is not None
        words = [joined(text) for text in answers.hypotheses]
        return super().statistics(
            replace(answers, hypotheses=words, references=[[joined(r) for r in refs] for refs in answers.references])
        )


class ReachedError(Exception):
    """The goal is reached."""


class Watch(Display):
    """Takes down every evaluation, and ends training at the goal."""

    def __init__(self, goal: float) -> None:
        self.goal = goal
        self.bleu: list[float] = []
        self.updates = 0

    def judged(self, judged: Judged) -> None:
        self.bleu.append(judged.metrics[judged.decides])
        self.updates = judged.update
        if self.bleu[-1] >= self.goal:
            raise ReachedError


def train(
    *, corpus: str, folder: str, sizes: dict[str, Any], seed: int, goal: float, every: int, most: int
) -> dict[str, Any]:
    """Train until dev is answered well enough; BLEU of every evaluation, and the updates it took."""
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
                "optimiser": {"name": "adam", "rate": sizes["rate"]},
                "schedule": "constant",
                "clip": sizes["clip"],
                "evaluate_every": every,
                "metric": "bleu_of_words",
            },
        }
    )
    with contextlib.suppress(ReachedError):
        train_run(config, Path(folder), display=watch)
    return {"bleu": watch.bleu, "updates": watch.updates}


if __name__ == "__main__":
    answer({"train": train})

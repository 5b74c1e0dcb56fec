"""Worker of ``time_to_quality.py`` for JoeyNMT: its own reader, batches, model, training loop and validation."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import sacrebleu
from harness.worker import answer
from joeynmt.training import TrainManager
from train_corpus_joeynmt import describe, ready


class ReachedError(Exception):
    """The target is reached."""


def detokenize(tokens: str) -> str:
    """Join BPE tokens to words."""
    return tokens.replace(" ", "").replace("▁", " ").strip()


class Watch(TrainManager):
    """JoeyNMT's trainer; records BLEU of every validation and stops at the target."""

    goal = 0.0
    references: list[str]

    def _validate(self, valid_data: Any) -> None:
        super()._validate(valid_data)
        outputs = (self.model_dir / f"{self.stats.steps}.hyps").read_text(encoding="utf-8").rstrip("\n").split("\n")
        self.bleu.append(sacrebleu.corpus_bleu([detokenize(o) for o in outputs], [self.references], force=True).score)
        if self.bleu[-1] >= self.goal:
            raise ReachedError


def train(
    *, corpus: str, folder: str, sizes: dict[str, Any], seed: int, goal: float, every: int, most: int
) -> dict[str, Any]:
    """Train until BLEU on the validation set reaches ``goal``; return BLEU of every validation, and the updates."""
    description = describe(corpus, folder, sizes, seed=seed, steps=most)
    description["training"] |= {"validation_freq": every, "logging_freq": every, "keep_best_ckpts": 1}
    description["testing"] = {"beam_size": 1, "batch_size": sizes["batch"], "batch_type": "sentence"}
    manager, data = ready(Watch, description, folder=folder, seed=seed)
    manager.goal, manager.bleu = goal, []
    lines = Path(f"{corpus}/dev.en").read_text(encoding="utf-8").rstrip("\n").split("\n")
    manager.references = [detokenize(line) for line in lines]
    with contextlib.suppress(ReachedError):
        manager.train_and_validate(**data)
    return {"bleu": manager.bleu, "updates": manager.stats.steps}


if __name__ == "__main__":
    logging.disable(logging.INFO)
    answer({"train": train})

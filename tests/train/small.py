"""A small task for tests: reversing words."""

from pathlib import Path
from typing import Any

import torch

from seqloom.config import make_config
from seqloom.data.examples import Example
from seqloom.merge import merge
from seqloom.train.display import Display
from seqloom.train.folder import JsonlLog, RunFolder
from seqloom.train.run import train

WORDS = [f"{a}{b}{c}" for a in "abcde" for b in "fghij" for c in "klmn"]
PAIRS = [Example(word, word[::-1]) for word in WORDS]
BASE = {
    "model": {"hidden_size": 12, "dropout": 0.0},
    "data": {"source_tokenizer": "character", "target_tokenizer": "character"},
    "train": {"updates": 12, "batch_sentences": 16, "evaluate_every": 4, "log_every": 2},
}


def trained(out: Path, settings: dict[str, Any] | None = None, *, display: Display | None = None) -> RunFolder:
    """Train a short run in ``out``."""
    torch.set_num_threads(1)
    config = make_config(merge(BASE, settings or {}))
    return train(config, out, display=display or Display(), train_examples=PAIRS[:80], dev_examples=PAIRS[80:])


def validations(folder: RunFolder) -> list[dict[str, Any]]:
    """The validation records of ``metrics.jsonl``."""
    return [record for record in JsonlLog(folder.metrics) if "dev" in record]

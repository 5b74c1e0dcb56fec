"""Trains a small run in a process that kills itself (SIGKILL) at a chosen moment.

Moments: ``backward``, in the middle of update NUMBER; ``write``, in the NUMBERth write of any file, after half of it;
``rename``, before the NUMBERth file is renamed; ``never``. It resumes the run if the folder contains one.
"""

import fcntl
import os
import signal
from pathlib import Path

import torch

import seqloom.files
from seqloom.config import make_config
from seqloom.data.examples import Example
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder
from seqloom.train.run import resume, train

CONFIG = {
    "model": {"hidden_size": 12, "dropout": 0.2},
    "data": {"source_tokenizer": "character", "target_tokenizer": "character"},
    "train": {
        "updates": 40,
        "batch_sentences": 8,
        "evaluate_every": 10,
        "keep_best_checkpoints": 2,
        "patience": 3,
        "log_every": 3,
        "checkpoint_seconds": 1e-6,  # after every update
        "ema_decay": 0.9,
        "scheduled_sampling": {"name": "linear", "steps": 100, "feed": "sample"},
        "schedule": {"name": "plateau", "warmup": 5, "patience": 1},
        "gradient_accumulation_steps": 2,
    },
}
WORDS = [f"{a}{b}{c}" for a in "abcde" for b in "fghij" for c in "klmn"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(moment: str, number: int) -> None:
    count = 0

    def at(chosen: str) -> bool:
        nonlocal count
        count += moment == chosen
        return moment == chosen and count == number

    backward, replace, fsync = torch.Tensor.backward, os.replace, os.fsync

    def dying_backward(self, *arguments, **options):
        backward(self, *arguments, **options)
        if at("backward"):
            die()

    def dying_replace(*arguments):
        if at("rename"):
            die()
        replace(*arguments)

    def dying_fsync(number):
        written = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if written and at("write"):
            os.ftruncate(number, os.fstat(number).st_size // 2)
            die()
        fsync(number)

    torch.Tensor.backward = dying_backward
    seqloom.files.os.replace, seqloom.files.os.fsync = dying_replace, dying_fsync


def main(folder: Path, moment: str, number: int) -> None:
    torch.set_num_threads(1)
    die_at(moment, number)
    if RunFolder(folder).exists:
        resume(folder, {}, display=Display())
    else:
        pairs = [Example(word, word[::-1]) for word in WORDS]
        train(make_config(CONFIG), folder, display=Display(), train_examples=pairs[:80], dev_examples=pairs[80:])

"""Worker of ``train_corpus.py`` for JoeyNMT: its own reader, batches, model and training loop."""

import logging
import time
from pathlib import Path
from typing import Any, TypeVar

from harness.worker import answer
from joeynmt.batch import Batch
from joeynmt.config import parse_global_args, set_validation_args
from joeynmt.helpers import set_seed
from joeynmt.prediction import prepare
from joeynmt.training import TrainManager

NEVER = 10**9


Manager = TypeVar("Manager", bound=TrainManager)


class TimedManager(TrainManager):
    """JoeyNMT's trainer; records when every batch was ready, and its number of target tokens."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.ready: list[float] = []
        self.tokens: list[int] = []

    def _train_step(self, batch: Batch) -> tuple[float, int]:
        self.ready.append(time.perf_counter())
        self.tokens.append(batch.ntokens)  # without padding and BOS, with EOS
        return super()._train_step(batch)


def describe(corpus: str, folder: str, sizes: dict[str, Any], *, seed: int, steps: int) -> dict[str, Any]:
    """Return a JoeyNMT configuration for files of tokens separated by spaces, without validation."""
    stack = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "num_layers": 1,
        "hidden_size": sizes["hidden"],
        "dropout": sizes["dropout"],
        "embeddings": {"embedding_dim": sizes["embedding"], "dropout": sizes["dropout"]},
    }
    decoder = {"attention": "bahdanau", "input_feeding": True, "init_hidden": "bridge", "hidden_dropout": 0.0}
    return {
        "name": "train_corpus",
        "model_dir": folder,
        "use_cuda": False,
        "random_seed": seed,
        "data": {
            "train": f"{corpus}/train",
            "dev": f"{corpus}/dev",
            "src": {"lang": "de", "level": "word"},
            "trg": {"lang": "en", "level": "word"},
        },
        "model": {"encoder": stack | {"bidirectional": True}, "decoder": stack | decoder},
        "training": {
            "batch_size": sizes["batch"],
            "batch_type": "sentence",
            "normalization": "tokens",
            "optimizer": "adam",
            "learning_rate": sizes["rate"],
            "clip_grad_norm": sizes["clip"],
            "scheduling": "exponential",  # required; with this factor, the learning rate is constant
            "decrease_factor": 1.0,
            "epochs": NEVER,
            "updates": steps,
            "logging_freq": 100,
            "validation_freq": 100 * NEVER,
        },
        "testing": {},
    }


def ready(
    kind: type[Manager], description: dict[str, Any], *, folder: str, seed: int
) -> tuple[Manager, dict[str, Any]]:
    """Return a trainer, built as by JoeyNMT's command, and its data."""
    args = parse_global_args(description, mode="train")
    set_seed(seed)
    Path(folder).mkdir(parents=True, exist_ok=True)
    model, training, dev, _ = prepare(args, rank=0, mode="train")
    manager = kind(
        rank=0,
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        autocast=args.autocast,
        seed=args.seed,
        train_args=args.train,
        dev_args=set_validation_args(args.test),
    )
    return manager, {"train_data": training, "valid_data": dev}


def train(
    *, case: str, corpus: str, folder: str, sizes: dict[str, Any], seed: int, warm_up: int, span: int
) -> dict[str, Any]:
    """Train on a corpus; after ``warm_up`` updates, time ``span`` updates, including their batches."""
    description = describe(corpus, folder, sizes, seed=seed, steps=warm_up + span + 1)
    manager, data = ready(TimedManager, description, folder=folder, seed=seed)
    manager.train_and_validate(**data)
    timed = slice(warm_up, warm_up + span)
    return {
        "tokens": sum(manager.tokens[timed]),
        "seconds": manager.ready[timed.stop] - manager.ready[timed.start],
        "parameters": sum(parameter.numel() for parameter in manager.model.parameters()),
    }


if __name__ == "__main__":
    logging.disable(logging.INFO)
    answer({"train": train})

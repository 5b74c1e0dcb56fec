"""An external stream: truncated backpropagation carries the state from window to window, saved and resumed."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import EOS, Padded
from seqloom.config import TrainConfig
from seqloom.data.batchers.base import BatchSize
from seqloom.registry import build
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder
from seqloom.train.trainer import Trainer

OUTSIDE = ("proofs/stream.py",)
pytestmark = pytest.mark.usefixtures("outside")

V, LANES = 9, 3
MODELS = {
    "recurrent": {"name": "recurrent", "context": "none", "readout": "state"},
    "past": {"name": "recurrent", "context": "past", "readout": "tanh", "attention": {"score": "dot"}},
    "transformer": {"name": "transformer", "heads": 2, "layers": 1, "dropout": 0.0},
}


class Text:
    """A corpus of short targets."""

    def __init__(self) -> None:
        draw = np.random.default_rng(1)
        self.rows = [np.append(draw.integers(3, V, draw.integers(1, 7)), EOS) for _ in range(20)]

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, field: str, index: int):
        assert field == "target"
        return self.rows[index]


def build_language_model(decoder: str):
    torch.manual_seed(1)
    return build_model({"type": "language_model", "decoder": MODELS[decoder]}, sizes={"target": V}, hidden_size=8)


def lanes(window: int):
    return build("batcher", {"name": "lanes", "window": window}, Text(), BatchSize(None, LANES), 1)


@pytest.mark.parametrize("window", [1, 4, 7, 1000])
def test_lanes_concatenate_to_the_text(window):
    batcher, text = lanes(window), np.concatenate(Text().rows)
    batches = [batcher.collate(item) for item in batcher.plan(0)]
    assert [batcher.target_steps(item) for item in batcher.plan(3)] == [b.target.values.numel() for b in batches]
    whole = torch.cat([batch.target.values for batch in batches], 1).flatten()
    assert whole.tolist() == text[: len(whole)].tolist()
    assert len(text) - len(whole) < LANES


@pytest.mark.parametrize("decoder", MODELS)
@pytest.mark.parametrize("window", [1, 4, 7])
@torch.no_grad()
def test_carried_state_gives_the_loss_of_the_whole_text(decoder, window):
    model, batcher = build_language_model(decoder).double().eval(), lanes(window)
    objective = build("objective", "truncated_backpropagation")
    text = batcher.text_LT
    whole = model.loss(Batch({"target": Padded(text, torch.ones_like(text, dtype=torch.bool))}))
    carry, total, cut, steps = None, 0.0, 0.0, 0
    for item in batcher.plan(0):
        batch = batcher.collate(item)
        loss, carry = objective(model, batch, update=1, carry=carry)
        total, steps, cut = total + loss.total.item(), steps + loss.steps.item(), cut + model.loss(batch).total.item()
    assert steps == whole.steps
    assert total == pytest.approx(whole.total.item(), rel=1e-12)
    assert cut != pytest.approx(whole.total.item(), rel=1e-4)


def trainer_in(folder):
    config = TrainConfig(
        updates=100,
        batch_sentences=LANES,
        optimizer={"name": "adam", "lr": 0.01},
        objective="truncated_backpropagation",
        ema_decay=0.0,
    )
    validator = SimpleNamespace(vocab_size=V)
    return Trainer(
        build_language_model("recurrent"),
        lanes(5),
        validator,
        config=config,
        folder=RunFolder(folder),
        display=Display(),
    )


def test_resumed_training_equals_uninterrupted_training(tmp_path):
    whole, first = trainer_in(tmp_path / "whole"), trainer_in(tmp_path / "run")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    for trainer, updates in ((whole, 9), (first, 4)):
        update_batches = trainer.update_batches()
        for _ in range(updates):
            trainer.train_step(next(update_batches))
    first.save()
    second = trainer_in(tmp_path / "run")
    assert second.restore()
    assert second.carry is not None
    assert all(torch.equal(second.carry["state"][name], tensor) for name, tensor in first.carry["state"].items())
    update_batches = second.update_batches()
    for _ in range(5):
        second.train_step(next(update_batches))
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name]), name


def test_carried_state_is_reset_at_the_start_of_an_epoch(tmp_path):
    trainer = trainer_in(tmp_path)
    update_batches = trainer.update_batches()
    windows = len(trainer.batcher.plan(0))
    for n in range(1, windows + 1):
        trainer.train_step(next(update_batches))
        assert (trainer.carry is None) == (n == windows)

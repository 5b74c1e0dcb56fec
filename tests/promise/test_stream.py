"""The data path, proved by a stream from outside: state carried from window to window, saved and resumed."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import END, Padded
from seqloom.config import TrainConfig
from seqloom.data.batchers.base import BatchSize
from seqloom.registry import build
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder
from seqloom.train.loop import Loop

OUTSIDE = ("proofs/stream.py",)
pytestmark = pytest.mark.usefixtures("outside")

V, LANES = 9, 3
MODELS = {
    "recurrent": {"name": "recurrent", "context": "none", "readout": "state"},
    "past": {"name": "recurrent", "context": "past", "readout": "tanh", "attention": {"score": "dot"}},
    "transformer": {"name": "transformer", "heads": 2, "layers": 1, "dropout": 0.0},
}


class Text:
    """A corpus of short rows."""

    def __init__(self) -> None:
        draw = np.random.default_rng(1)
        self.rows = [np.append(draw.integers(3, V, draw.integers(1, 7)), END) for _ in range(20)]

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, field: str, index: int):
        assert field == "target"
        return self.rows[index]


def model_of(decoder: str):
    torch.manual_seed(1)
    return build_model({"model": "language_model", "decoder": MODELS[decoder]}, sizes={"target": V}, size=8)


def lanes(window: int):
    return build("batcher", {"name": "lanes", "window": window}, Text(), BatchSize(None, LANES), 1)


@pytest.mark.parametrize("window", [1, 4, 7, 1000])
def test_lanes_are_one_text(window):
    batcher, text = lanes(window), np.concatenate(Text().rows)
    batches = [batcher.collate(item) for item in batcher.plan(0)]
    assert [batcher.target_steps(item) for item in batcher.plan(3)] == [b.target.values.numel() for b in batches]
    whole = torch.cat([batch.target.values for batch in batches], 1).flatten()
    assert whole.tolist() == text[: len(whole)].tolist()
    assert len(text) - len(whole) < LANES


@pytest.mark.parametrize("decoder", MODELS)
@pytest.mark.parametrize("window", [1, 4, 7])
@torch.no_grad()
def test_carried_state_makes_windows_one_text(decoder, window):
    model, batcher = model_of(decoder).double().eval(), lanes(window)
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


def loop_in(folder):
    config = TrainConfig(
        updates=100,
        batch_sentences=LANES,
        optimiser={"name": "adam", "rate": 0.01},
        objective="truncated_backpropagation",
        moving_average=0.0,
    )
    judge = SimpleNamespace(symbols=V)
    return Loop(model_of("recurrent"), lanes(5), judge, config=config, folder=RunFolder(folder), display=Display())


def test_what_is_carried_is_saved_and_resumed_bit_for_bit(tmp_path):
    whole, first = loop_in(tmp_path / "whole"), loop_in(tmp_path / "run")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    for loop, updates in ((whole, 9), (first, 4)):
        portions = loop.portions()
        for _ in range(updates):
            loop.learn(next(portions))
    first.save()
    second = loop_in(tmp_path / "run")
    assert second.restore()
    assert second.carry is not None
    assert all(torch.equal(second.carry["state"][name], tensor) for name, tensor in first.carry["state"].items())
    portions = second.portions()
    for _ in range(5):
        second.learn(next(portions))
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name]), name


def test_nothing_is_carried_into_another_epoch(tmp_path):
    loop = loop_in(tmp_path)
    portions = loop.portions()
    windows = len(loop.batcher.plan(0))
    for n in range(1, windows + 1):
        loop.learn(next(portions))
        assert (loop.carry is None) == (n == windows)

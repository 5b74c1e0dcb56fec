"""Gradient accumulation: the gradients of micro-batches add up to the gradient of the whole batch."""

import pytest
import torch

from seqloom import Batch, build_model, preset_names
from seqloom.presets import load_preset
from seqloom.train.checkpoint import load_weights
from tests.train.small import trained

SOURCES = [[5, 4], [8, 7, 6, 3, 4], [3], [4, 4, 5], [7, 8]]
TARGETS = [[3, 4, 5, 6, 7, 8], [], [7, 4], [8], [5, 6, 3]]


@pytest.mark.parametrize("preset", preset_names())
def test_micro_batch_gradients_add_up_to_full_batch_gradient(preset):
    torch.manual_seed(0)
    has_source = load_preset(preset)["type"] == "encoder_decoder"
    sizes = {"source": 9, "target": 9}
    model = build_model(preset, hidden_size=8, dropout=0.0, sizes=sizes).double()

    def batch(rows: slice) -> Batch:
        return Batch.from_lists(TARGETS[rows], SOURCES[rows] if has_source else None)

    whole = model.loss(batch(slice(None)))
    whole.mean.backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]

    model.zero_grad()
    total, steps = 0.0, 0
    for rows in (
        slice(0, 2),
        slice(2, 3),
        slice(3, 5),
    ):  # with 8, 3 and 6 target tokens: a mean of means would be wrong
        loss = model.loss(batch(rows))
        loss.total.backward()
        total, steps = total + loss.total.item(), steps + int(loss.steps)
    assert steps == whole.steps == 17
    assert total / steps == pytest.approx(whole.mean.item(), rel=1e-12)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad / steps, gradient, rtol=1e-9, atol=1e-12)


def test_accumulated_update_equals_full_batch_update(tmp_path):
    """In a training run: 80 pairs in one batch, or in batches of 33, 33 and 14."""
    base = {"updates": 1, "evaluate_every": 1, "optimizer": {"name": "sgd", "lr": 1.0}, "schedule": "constant"}
    whole = trained(tmp_path / "whole", {"train": {**base, "batch_sentences": 80}})
    pieces = trained(
        tmp_path / "pieces", {"train": {**base, "batch_sentences": 33, "gradient_accumulation_steps": 3}}
    )
    one, other = load_weights(whole.weights), load_weights(pieces.weights)
    for name, weight in one.items():
        torch.testing.assert_close(other[name], weight, rtol=1e-4, atol=1e-6)


def test_gradient_clipping_bounds_update_norm(tmp_path):
    base = {"updates": 1, "evaluate_every": 1, "optimizer": {"name": "sgd", "lr": 1.0, "momentum": 0.0}}
    base |= {"schedule": "constant", "batch_sentences": 80, "ema_decay": 0}
    unclipped, clipped = (trained(tmp_path / str(c), {"train": {**base, "clip_grad_norm": c}}) for c in (0, 1e-3))
    initial = trained(tmp_path / "initial", {"train": {**base, "optimizer": {"name": "sgd", "lr": 1e-9}}})
    start, *ends = (load_weights(run.weights) for run in (initial, unclipped, clipped))
    norm, clipped_norm = (sum(float((end[n] - w).square().sum()) for n, w in start.items()) ** 0.5 for end in ends)
    assert clipped_norm == pytest.approx(1e-3, rel=1e-2)
    assert norm > 10 * clipped_norm

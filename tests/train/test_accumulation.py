"""Losses are sums with their counts, so a batch in pieces has the gradient of the whole."""

import pytest
import torch

from seqloom import Batch, build_model, preset_names
from seqloom.presets import load_preset
from seqloom.train.checkpoint import load_weights
from tests.train.small import trained

SOURCES = [[5, 4], [8, 7, 6, 3, 4], [3], [4, 4, 5], [7, 8]]
TARGETS = [[3, 4, 5, 6, 7, 8], [], [7, 4], [8], [5, 6, 3]]


@pytest.mark.parametrize("preset", preset_names())
def test_gradients_of_micro_batches_add_up_to_those_of_the_whole(preset):
    torch.manual_seed(0)
    has_source = load_preset(preset)["model"] == "encoder_decoder"
    sizes = {"source": 9, "target": 9}
    model = build_model(preset, size=8, dropout=0.0, sizes=sizes).double()

    def batch(rows: slice) -> Batch:
        return Batch.of(TARGETS[rows], SOURCES[rows] if has_source else None)

    whole = model.loss(batch(slice(None)))
    whole.mean.backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]

    model.zero_grad()
    total, steps = 0.0, 0
    for rows in (slice(0, 2), slice(2, 3), slice(3, 5)):  # of 8, 3 and 6 real steps: a mean of means would be wrong
        loss = model.loss(batch(rows))
        loss.total.backward()
        total, steps = total + loss.total.item(), steps + int(loss.steps)
    assert steps == whole.steps == 17
    assert total / steps == pytest.approx(whole.mean.item(), rel=1e-12)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad / steps, gradient, rtol=1e-9, atol=1e-12)


def test_an_update_of_pieces_is_the_update_of_the_whole(tmp_path):
    """In training itself: 80 pairs at once, or in pieces of 33, 33 and 14."""
    plain = {"updates": 1, "evaluate_every": 1, "optimiser": {"name": "sgd", "rate": 1.0}, "schedule": "constant"}
    whole = trained(tmp_path / "whole", {"train": {**plain, "batch_sentences": 80}})
    pieces = trained(tmp_path / "pieces", {"train": {**plain, "batch_sentences": 33, "accumulate": 3}})
    one, other = load_weights(whole.weights), load_weights(pieces.weights)
    for name, weight in one.items():
        torch.testing.assert_close(other[name], weight, rtol=1e-4, atol=1e-6)


def test_clipping_bounds_an_update(tmp_path):
    plain = {"updates": 1, "evaluate_every": 1, "optimiser": {"name": "sgd", "rate": 1.0, "momentum": 0.0}}
    plain |= {"schedule": "constant", "batch_sentences": 80, "moving_average": 0}
    free, bound = (trained(tmp_path / str(c), {"train": {**plain, "clip": c}}) for c in (0, 1e-3))
    still = trained(tmp_path / "still", {"train": {**plain, "optimiser": {"name": "sgd", "rate": 1e-9}}})
    start, *ends = (load_weights(run.weights) for run in (still, free, bound))
    far, near = (sum(float((end[n] - w).square().sum()) for n, w in start.items()) ** 0.5 for end in ends)
    assert near == pytest.approx(1e-3, rel=1e-2)
    assert far > 10 * near

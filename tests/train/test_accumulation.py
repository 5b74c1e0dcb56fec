"""Losses are sums with their counts, so a batch in pieces has the gradient of the whole."""

import pytest
import torch

from seqloom import Batch, build_model, preset_names
from seqloom.presets import load_preset

SOURCES = [[5, 4], [8, 7, 6, 3, 4], [3], [4, 4, 5], [7, 8]]
TARGETS = [[3, 4, 5, 6, 7, 8], [], [7, 4], [8], [5, 6, 3]]


@pytest.mark.parametrize("preset", preset_names())
def test_gradients_of_micro_batches_add_up_to_those_of_the_whole(preset):
    torch.manual_seed(0)
    has_source = load_preset(preset)["model"] == "encoder_decoder"
    vocabularies = {"target_vocabulary": 9, **({"source_vocabulary": 9} if has_source else {})}
    model = build_model(preset, size=8, dropout=0.0, **vocabularies).double()

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

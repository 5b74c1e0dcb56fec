"""The contract of every registered objective."""

import io
import math

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.nn.outputs import Loss
from seqloom.registry import build
from tests.contract.runs import SMALL, randomized, same
from tests.variants import every, label

pytestmark = pytest.mark.parametrize("spec", every("objective"), ids=label)
TARGETS, SOURCES = [[3, 4, 5], [6], [5, 5]], [[4, 5, 6], [3], [5, 6]]


@pytest.fixture(params=["luong", "transformer", "attention-lm"])
def model(request):
    sizes = {"source": 7, "target": 7}
    built = build_model(request.param, sizes=sizes, hidden_size=4, overrides=SMALL[request.param])
    return randomized(built.double().eval(), 1)


def batch_of(model, targets=TARGETS) -> Batch:
    return Batch.from_lists(targets, SOURCES if hasattr(model, "encoder") else None)


def test_loss_has_finite_gradients(spec, model):
    batch = batch_of(model)
    loss, _ = build("objective", spec)(model, batch, update=1)
    assert isinstance(loss, Loss)
    assert loss.steps == batch.target.mask.sum()
    assert not loss.reported.requires_grad
    assert math.isfinite(loss.total.item())
    gradients = torch.autograd.grad(loss.total, list(model.parameters()), allow_unused=True)
    assert all(gradient.isfinite().all() for gradient in gradients if gradient is not None)
    assert any(gradient.any() for gradient in gradients if gradient is not None)


def test_reported_loss_of_empty_targets_is_the_negative_log_likelihood(spec, model):
    """The first step is always fed BOS, so every objective evaluates it alike."""
    batch = batch_of(model, [[], [], []])
    for update in (1, 1000):
        loss, _ = build("objective", spec)(model, batch, update=update)
        same(loss.reported, model.loss(batch).reported)


def test_loss_depends_on_the_random_seed_only(spec, model):
    objective, losses = build("objective", spec), []
    for _ in range(2):
        torch.manual_seed(5)
        losses.append(objective(model, batch_of(model), update=300)[0].total.item())
    assert losses[0] == losses[1]


def test_carry_can_be_saved(spec, model):
    objective, batch = build("objective", spec), batch_of(model)
    _, carry = objective(model, batch, update=1)
    file = io.BytesIO()
    torch.save(carry, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    losses = []
    for state in (carry, loaded):
        torch.manual_seed(6)
        losses.append(objective(model, batch, update=2, carry=state)[0].total.item())
    assert losses[0] == losses[1]


def test_logged_values_are_numbers(spec, model):
    logged = build("objective", spec).logged(7)
    assert all(isinstance(name, str) and math.isfinite(number) for name, number in logged.items())

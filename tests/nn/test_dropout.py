"""Dropout: rate, rescaling, independence and reproducibility."""

import pytest
import torch

from seqloom.errors import ConfigError
from seqloom.nn.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_dropout_rate_and_rescaling(p):
    torch.manual_seed(0)
    n = 400_000
    y = dropout(torch.ones(n, dtype=torch.float64), p, True)
    dropped = (y == 0).double().mean()
    standard_error = (p * (1 - p) / n) ** 0.5
    assert abs(dropped - p) < 5 * standard_error
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - p)], rel=1e-4)


def test_neighboring_entries_are_dropped_independently():
    """Four entries share one draw of 64 bits: all 16 patterns must be equally frequent."""
    torch.manual_seed(1)
    kept = (dropout(torch.ones(200_000, 4), 0.5, True) != 0).long()
    counts = torch.bincount((kept * torch.tensor([1, 2, 4, 8])).sum(1), minlength=16).double()
    expected = 200_000 / 16
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 37.7  # the 0.1 % quantile of 15 degrees of freedom


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5)])
def test_gradient_is_the_dropout_mask_for_any_shape(shape):
    torch.manual_seed(2)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.4, True)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, x * grad)


def test_dropout_is_inactive_in_eval_mode_and_at_probability_zero():
    x = torch.randn(4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.0).sample_step_masks((2, 3, 4), x) is None
    assert not Dropout(1.0)(x).any()


def test_dropout_is_determined_by_the_seed():
    x = torch.ones(100)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(dropout(x, 0.5, True))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_invalid_dropout_probability_is_an_error(p):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        Dropout(p)

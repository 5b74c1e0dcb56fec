"""Dropout: how often it drops, what it leaves, and that it is the same for the same seed."""

import pytest
import torch

from seqloom.errors import OptionError
from seqloom.nn.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_it_drops_as_often_as_said_and_keeps_the_mean(p):
    torch.manual_seed(0)
    n = 400_000
    y = dropout(torch.ones(n, dtype=torch.float64), p, True)
    dropped = (y == 0).double().mean()
    spread = (p * (1 - p) / n) ** 0.5
    assert abs(dropped - p) < 5 * spread
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - p)], rel=1e-4)


def test_entries_are_dropped_independently_of_their_neighbours():
    """Four entries share one draw of 64 bits: all 16 patterns of four must be as frequent as chance has them."""
    torch.manual_seed(1)
    kept = (dropout(torch.ones(200_000, 4), 0.5, True) != 0).long()
    counts = torch.bincount((kept * torch.tensor([1, 2, 4, 8])).sum(1), minlength=16).double()
    expected = 200_000 / 16
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 37.7  # the 0.1 % quantile of 15 degrees of freedom


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5)])
def test_any_shape_and_the_gradient_is_the_noise(shape):
    torch.manual_seed(2)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.4, True)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, x * grad)


def test_nothing_happens_outside_of_training_or_at_zero():
    x = torch.randn(4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.0).over_steps((2, 3, 4), x) is None
    assert not Dropout(1.0)(x).any()


def test_a_seed_fixes_it():
    x = torch.ones(100)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(dropout(x, 0.5, True))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(OptionError, match="between 0 and 1"):
        Dropout(p)

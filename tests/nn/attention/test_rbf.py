"""Nearness as a score."""

import numpy as np
import pytest
import torch

from seqloom.errors import OptionError
from seqloom.registry import build
from tests.nn.attention.formulas import B, Q, S, T, check_score, made, scored
from tests.nn.helpers import array, assert_equal, gradients, rand


@pytest.mark.parametrize("options", [{}, {"gamma": 0.7}, {"gamma": 1.3, "learned": False}], ids=str)
def test_formula(options):
    def rbf(score, q, k):
        return -np.exp(array(score.log_gamma)) * np.sum((q - k) ** 2)

    check_score({"name": "rbf", **options}, rbf)


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_rbf_of_unit_vectors_is_the_dot_product_times_2γ(gamma):
    rbf, queries, keys = made({"name": "rbf", "gamma": gamma, "learned": False})
    queries, keys = (x / x.norm(dim=-1, keepdim=True) for x in (queries, keys))
    difference = scored(rbf, queries, keys) - 2 * gamma * queries @ keys.mT
    assert_equal(difference, torch.full_like(difference, -2 * gamma), 1e-6)
    weights = torch.softmax(scored(rbf, queries, keys), -1)
    assert_equal(weights, torch.softmax(2 * gamma * queries @ keys.mT, -1), 1e-6)


def test_rbf_by_default_is_the_scaled_dot_product_of_unit_vectors():
    rbf, scaled = build("score", "rbf", Q, Q).double(), build("score", "scaled_dot", Q, Q)
    queries, keys = (x / x.norm(dim=-1, keepdim=True) for x in (rand(B, T, Q), rand(B, S, Q)))
    weights = torch.softmax(scored(rbf, queries, keys), -1)
    assert_equal(weights, torch.softmax(scored(scaled, queries, keys), -1), 1e-6)


def test_γ_is_learned_or_kept():
    learned = build("score", {"name": "rbf", "gamma": 0.7}, Q, Q)
    kept = build("score", {"name": "rbf", "gamma": 0.7, "learned": False}, Q, Q)
    assert [p.exp().item() for p in learned.parameters()] == [pytest.approx(0.7)]
    assert not list(kept.parameters())
    queries, keys = rand(B, T, Q, dtype=torch.float32), rand(B, S, Q, dtype=torch.float32)
    assert_equal(scored(learned, queries, keys), scored(kept, queries, keys), 0)
    assert gradients(scored(learned, queries, keys), learned.parameters())[0].abs() > 0
    with torch.no_grad():
        learned.log_gamma -= 100  # however far it is pushed, it stays positive
    assert (scored(learned, queries, keys) < 0).all()
    assert kept.state_dict(), "a γ that is kept is saved with the model"


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_γ_must_be_positive(gamma):
    with pytest.raises(OptionError, match="gamma"):
        build("score", {"name": "rbf", "gamma": gamma}, Q, Q)


def test_rbf_of_equals_is_exactly_zero():
    rbf, _, keys = made({"name": "rbf"})
    for dtype in (torch.float32, torch.float64):
        own = scored(rbf.to(dtype), keys.to(dtype) * 1e3, keys.to(dtype) * 1e3).diagonal(dim1=1, dim2=2)
        assert (own == 0).all()

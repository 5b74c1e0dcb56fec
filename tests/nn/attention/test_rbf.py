"""RBF attention."""

import numpy as np
import pytest
import torch

from seqloom.errors import ConfigError
from seqloom.registry import build
from tests.nn.attention.formulas import B, Q, S, T, check_score, compute_scores, make_score
from tests.nn.helpers import assert_equal, gradients, rand, to_numpy


@pytest.mark.parametrize("options", [{}, {"gamma": 0.7}, {"gamma": 1.3, "learned": False}], ids=str)
def test_formula(options):
    def rbf(score, q, k):
        return -np.exp(to_numpy(score.log_gamma)) * np.sum((q - k) ** 2)

    check_score({"name": "rbf", **options}, rbf)


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_rbf_of_unit_vectors_equals_dot_product_times_2γ(gamma):
    rbf, queries, keys = make_score({"name": "rbf", "gamma": gamma, "learned": False})
    queries, keys = (x / x.norm(dim=-1, keepdim=True) for x in (queries, keys))
    difference = compute_scores(rbf, queries, keys) - 2 * gamma * queries @ keys.mT
    assert_equal(difference, torch.full_like(difference, -2 * gamma), 1e-6)
    weights = torch.softmax(compute_scores(rbf, queries, keys), -1)
    assert_equal(weights, torch.softmax(2 * gamma * queries @ keys.mT, -1), 1e-6)


def test_default_rbf_of_unit_vectors_equals_scaled_dot_product():
    rbf, scaled = build("score", "rbf", Q, Q).double(), build("score", "scaled_dot", Q, Q)
    queries, keys = (x / x.norm(dim=-1, keepdim=True) for x in (rand(B, T, Q), rand(B, S, Q)))
    weights = torch.softmax(compute_scores(rbf, queries, keys), -1)
    assert_equal(weights, torch.softmax(compute_scores(scaled, queries, keys), -1), 1e-6)


def test_γ_is_learned_or_fixed():
    learned = build("score", {"name": "rbf", "gamma": 0.7}, Q, Q)
    fixed = build("score", {"name": "rbf", "gamma": 0.7, "learned": False}, Q, Q)
    assert [p.exp().item() for p in learned.parameters()] == [pytest.approx(0.7)]
    assert not list(fixed.parameters())
    queries, keys = rand(B, T, Q, dtype=torch.float32), rand(B, S, Q, dtype=torch.float32)
    assert_equal(compute_scores(learned, queries, keys), compute_scores(fixed, queries, keys), 0)
    assert gradients(compute_scores(learned, queries, keys), learned.parameters())[0].abs() > 0
    with torch.no_grad():
        learned.log_gamma -= 100  # γ stays positive, however small its logarithm
    assert (compute_scores(learned, queries, keys) < 0).all()
    assert fixed.state_dict(), "a fixed γ is saved with the model"


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_γ_must_be_positive(gamma):
    with pytest.raises(ConfigError, match="gamma"):
        build("score", {"name": "rbf", "gamma": gamma}, Q, Q)


def test_rbf_of_equal_vectors_is_exactly_zero():
    rbf, _, keys = make_score({"name": "rbf"})
    for dtype in (torch.float32, torch.float64):
        self_scores = compute_scores(rbf.to(dtype), keys.to(dtype) * 1e3, keys.to(dtype) * 1e3).diagonal(
            dim1=1, dim2=2
        )
        assert (self_scores == 0).all()

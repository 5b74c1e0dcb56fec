"""Cosine attention."""

import numpy as np
import pytest
import torch

from seqloom.errors import ConfigError
from seqloom.registry import build
from tests.nn.attention.formulas import B, Q, S, T, check_score, compute_scores, make_score
from tests.nn.helpers import assert_equal, gradients, rand, to_numpy


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"temperature": 2.0, "learned": False}], ids=str)
def test_formula(options):
    def cosine(score, q, k):
        return q @ k / (np.linalg.norm(q) * np.linalg.norm(k)) / np.exp(to_numpy(score.log_temperature))

    check_score({"name": "cosine", **options}, cosine)


def test_cosine_is_invariant_to_vector_length():
    score, queries, keys = make_score("cosine")
    assert_equal(compute_scores(score, 1e3 * queries, 1e-2 * keys), compute_scores(score, queries, keys))


def test_cosine_with_zero_vector_is_zero_with_finite_gradients():
    score = build("score", "cosine", Q, Q)
    queries, keys = torch.zeros(B, T, Q, requires_grad=True), rand(B, S, Q, dtype=torch.float32)
    result = compute_scores(score, queries, keys)
    assert not result.any()
    assert all(g.isfinite().all() for g in gradients(result, [queries, keys]))


def test_temperature_is_learned_or_fixed():
    learned = build("score", {"name": "cosine", "temperature": 0.7}, Q, Q)
    fixed = build("score", {"name": "cosine", "temperature": 0.7, "learned": False}, Q, Q)
    assert [p.exp().item() for p in learned.parameters()] == [pytest.approx(0.7)]
    assert not list(fixed.parameters())
    assert fixed.state_dict(), "a fixed temperature is saved with the model"


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_nonpositive_temperature_is_an_error(temperature):
    with pytest.raises(ConfigError, match="temperature"):
        build("score", {"name": "cosine", "temperature": temperature}, Q, Q)

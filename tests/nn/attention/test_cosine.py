"""The angle between query and key."""

import numpy as np
import pytest
import torch

from seqloom.errors import OptionError
from seqloom.registry import build
from tests.nn.attention.formulas import B, Q, S, T, check_score, made, scored
from tests.nn.helpers import array, assert_equal, gradients, rand


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"temperature": 2.0, "learned": False}], ids=str)
def test_formula(options):
    def cosine(score, q, k):
        return q @ k / (np.linalg.norm(q) * np.linalg.norm(k)) / np.exp(array(score.log_temperature))

    check_score({"name": "cosine", **options}, cosine)


def test_length_makes_no_difference():
    score, queries, keys = made("cosine")
    assert_equal(scored(score, 1e3 * queries, 1e-2 * keys), scored(score, queries, keys))


def test_a_vector_of_zeros_has_no_direction_and_no_nan():
    score = build("score", "cosine", Q, Q)
    queries, keys = torch.zeros(B, T, Q, requires_grad=True), rand(B, S, Q, dtype=torch.float32)
    result = scored(score, queries, keys)
    assert not result.any()
    assert all(g.isfinite().all() for g in gradients(result, [queries, keys]))


def test_the_temperature_is_learned_or_kept():
    learned = build("score", {"name": "cosine", "temperature": 0.7}, Q, Q)
    kept = build("score", {"name": "cosine", "temperature": 0.7, "learned": False}, Q, Q)
    assert [p.exp().item() for p in learned.parameters()] == [pytest.approx(0.7)]
    assert not list(kept.parameters())
    assert kept.state_dict(), "one that is kept is saved with the model"


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_the_temperature_is_positive(temperature):
    with pytest.raises(OptionError, match="temperature"):
        build("score", {"name": "cosine", "temperature": temperature}, Q, Q)

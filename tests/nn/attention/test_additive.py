"""Additive attention."""

import numpy as np
import pytest

from seqloom.registry import build
from tests.nn.attention.formulas import check_score
from tests.nn.helpers import to_numpy


@pytest.mark.parametrize("spec", ["additive", {"name": "additive", "hidden_size": 3}], ids=str)
@pytest.mark.parametrize("key_size", [4, 3])
def test_formula(spec, key_size):
    def additive(score, q, k):
        W = np.concatenate((to_numpy(score.query.weight), to_numpy(score.key.weight)), 1)
        return to_numpy(score.v) @ np.tanh(W @ np.concatenate((q, k)) + to_numpy(score.query.bias))

    check_score(spec, additive, key_size)


def test_weights_are_initialized_as_one_glorot_matrix():
    score, bound = build("score", "additive", 30, 20), (6 / 80) ** 0.5
    for weight in (score.query.weight, score.key.weight):
        assert 0.9 * bound < weight.abs().max() <= bound

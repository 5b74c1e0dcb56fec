"""A perceptron on query and key."""

import numpy as np
import pytest

from seqloom.registry import build
from tests.nn.attention.formulas import check_score
from tests.nn.helpers import array


@pytest.mark.parametrize("spec", ["additive", {"name": "additive", "size": 3}], ids=str)
@pytest.mark.parametrize("key_size", [4, 3])
def test_formula(spec, key_size):
    def additive(score, q, k):
        W = np.concatenate((array(score.query.weight), array(score.key.weight)), 1)
        return array(score.v) @ np.tanh(W @ np.concatenate((q, k)) + array(score.query.bias))

    check_score(spec, additive, key_size)


def test_initial_weights_are_glorot_for_the_one_matrix():
    score, bound = build("score", "additive", 30, 20), (6 / 80) ** 0.5
    for weight in (score.query.weight, score.key.weight):
        assert 0.9 * bound < weight.abs().max() <= bound

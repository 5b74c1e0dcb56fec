"""Bilinear attention."""

import pytest

from seqloom.registry import build
from tests.nn.attention.formulas import check_score
from tests.nn.helpers import to_numpy


@pytest.mark.parametrize("key_size", [4, 3])
def test_formula(key_size):
    check_score("bilinear", lambda score, q, k: q @ to_numpy(score.weight) @ k, key_size)


def test_initial_weights_are_glorot():
    bound = (6 / 50) ** 0.5
    assert 0.9 * bound < build("score", "bilinear", 30, 20).weight.abs().max() <= bound

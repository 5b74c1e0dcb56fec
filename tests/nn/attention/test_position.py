"""The static address."""

import math

import numpy as np
import torch

from seqloom.registry import build
from tests.nn.attention.formulas import B, Q, S, T, made, scored
from tests.nn.helpers import array, assert_equal, gradients, rand


def address(t, size):
    """The sinusoids of one position, by the formula."""
    return np.array([(math.cos if i % 2 else math.sin)(t / 10000 ** ((i - i % 2) / size)) for i in range(size)])


def by_formula(score, first=0):
    size, W = len(score.weight), array(score.weight)
    rows = [[address(first + t, size) @ W @ address(s, size) / math.sqrt(size) for s in range(S)] for t in range(T)]
    return torch.tensor(rows, dtype=torch.float64).expand(B, T, S)


def test_formula():
    score, queries, keys = made({"name": "position", "size": 6})
    assert_equal(scored(score, queries, keys), by_formula(score))


def test_position_depends_on_positions_alone():
    spec = {"name": "position", "size": 6}
    score, queries, keys = made(spec)
    result = scored(score, queries, keys)
    assert_equal(scored(score, rand(B, T, Q), rand(B, S, Q)), result, 0)
    assert not any(g.any() for g in gradients(result, [queries, keys]))
    assert gradients(result, score.parameters())[0].any()


def test_position_counts_from_where_it_is_told():
    spec = {"name": "position", "size": 6}
    score, queries, keys = made(spec)
    later = scored(score, queries, keys, torch.arange(7, 7 + T).expand(B, T))
    assert_equal(later, by_formula(score, first=7))


def test_position_looks_straight_across_at_first():
    score = build("score", "position", Q, Q).double()
    assert scored(score, rand(1, 9, Q), rand(1, 9, Q)).argmax(-1).tolist() == [list(range(9))]

"""Attention by position alone."""

import math

import numpy as np
import torch

from seqloom.registry import build
from tests.nn.attention.formulas import B, Q, S, T, compute_scores, make_score
from tests.nn.helpers import assert_equal, gradients, rand, to_numpy


def encode_position(t, size):
    """The sinusoidal encoding of one position, by the formula."""
    return np.array([(math.cos if i % 2 else math.sin)(t / 10000 ** ((i - i % 2) / size)) for i in range(size)])


def by_formula(score, first=0):
    size, W = len(score.weight), to_numpy(score.weight)
    rows = [
        [encode_position(first + t, size) @ W @ encode_position(s, size) / math.sqrt(size) for s in range(S)]
        for t in range(T)
    ]
    return torch.tensor(rows, dtype=torch.float64).expand(B, T, S)


def test_formula():
    score, queries, keys = make_score({"name": "position", "size": 6})
    assert_equal(compute_scores(score, queries, keys), by_formula(score))


def test_position_score_depends_only_on_positions():
    spec = {"name": "position", "size": 6}
    score, queries, keys = make_score(spec)
    result = compute_scores(score, queries, keys)
    assert_equal(compute_scores(score, rand(B, T, Q), rand(B, S, Q)), result, 0)
    assert not any(g.any() for g in gradients(result, [queries, keys]))
    assert gradients(result, score.parameters())[0].any()


def test_position_score_uses_given_target_positions():
    spec = {"name": "position", "size": 6}
    score, queries, keys = make_score(spec)
    later = compute_scores(score, queries, keys, torch.arange(7, 7 + T).expand(B, T))
    assert_equal(later, by_formula(score, first=7))


def test_position_score_is_initialized_to_equal_positions():
    score = build("score", "position", Q, Q).double()
    assert compute_scores(score, rand(1, 9, Q), rand(1, 9, Q)).argmax(-1).tolist() == [list(range(9))]

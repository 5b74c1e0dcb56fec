"""Formulas in numpy to hold scores and normalisers against."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.registry import build
from tests.nn.helpers import array, assert_equal, masks, rand, shaken

Q, B, T, S = 4, 2, 3, 5


def made(spec, key_size=Q):
    """A score with random parameters, queries and keys."""
    torch.manual_seed(1)
    score = shaken(build("score", spec, Q, key_size))
    return score, rand(B, T, Q), rand(B, S, key_size)


def scored(score, queries, keys, position_BT=None):
    return score(queries, score.prepare(keys), position_BT)


def check_score(spec, formula: Callable[..., float], key_size: int = Q) -> None:
    """A score against ``formula(score, q, k)``."""
    score, queries, keys = made(spec, key_size)
    q, k = array(queries), array(keys)
    expected = [[[float(formula(score, q[b, t], k[b, s])) for s in range(S)] for t in range(T)] for b in range(B)]
    assert_equal(scored(score, queries, keys), torch.tensor(expected, dtype=torch.float64))


def check_normaliser(spec, formula: Callable[[np.ndarray], np.ndarray], unit: float = 1.0) -> None:
    """A normaliser against ``formula(scores)`` of one query; scores are a few multiples of a unit, so ties abound."""
    row = st.lists(st.integers(-2, 0), min_size=S, max_size=S)

    @given(row, masks(1, S, least=1))
    @settings(max_examples=100, deadline=None)
    def check(numbers, mask):
        scores, seen = unit * np.array(numbers, dtype=np.float64), mask[0].numpy()
        expected = np.zeros(S)
        expected[seen] = formula(scores[seen])
        weights = build("normaliser", spec)(torch.from_numpy(scores)[None, None], mask[:, None])
        assert_equal(weights[0, 0], torch.from_numpy(expected))

    check()

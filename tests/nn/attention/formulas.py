"""Compares score functions and normalizers with formulas in numpy."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.registry import build
from tests.nn.helpers import assert_equal, masks, rand, randomize_parameters, to_numpy

Q, B, T, S = 4, 2, 3, 5


def make_score(spec, key_size=Q):
    """A score function with random parameters, queries and keys."""
    torch.manual_seed(1)
    score = randomize_parameters(build("score", spec, Q, key_size))
    return score, rand(B, T, Q), rand(B, S, key_size)


def compute_scores(score, queries, keys, position_BT=None):
    return score(queries, score.project_keys(keys), position_BT)


def check_score(spec, formula: Callable[..., float], key_size: int = Q) -> None:
    """Compare a score function with ``formula(score, q, k)``."""
    score, queries, keys = make_score(spec, key_size)
    q, k = to_numpy(queries), to_numpy(keys)
    expected = [[[float(formula(score, q[b, t], k[b, s])) for s in range(S)] for t in range(T)] for b in range(B)]
    assert_equal(compute_scores(score, queries, keys), torch.tensor(expected, dtype=torch.float64))


def check_normalizer(spec, formula: Callable[[np.ndarray], np.ndarray], unit: float = 1.0) -> None:
    """Compare a normalizer with ``formula(scores)`` of one query; scores are multiples of a unit, so many tie."""
    row = st.lists(st.integers(-2, 0), min_size=S, max_size=S)

    @given(row, masks(1, S, min_steps=1))
    @settings(max_examples=100, deadline=None)
    def check(numbers, mask):
        scores, visible = unit * np.array(numbers, dtype=np.float64), mask[0].numpy()
        expected = np.zeros(S)
        expected[visible] = formula(scores[visible])
        weights = build("normalizer", spec)(torch.from_numpy(scores)[None, None], mask[:, None])
        assert_equal(weights[0, 0], torch.from_numpy(expected))

    check()

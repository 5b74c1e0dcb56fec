"""Sparsemax against a brute-force projection onto the simplex."""

from itertools import chain, combinations

import numpy as np
import pytest
import torch

from seqloom.registry import build
from tests.nn.attention.formulas import check_normalizer


def projection(scores):
    """The nearest point of the simplex: the nearest of the projections onto all faces that lie in their face."""
    S = len(scores)
    points = []
    for face in map(list, chain.from_iterable(combinations(range(S), n) for n in range(1, S + 1))):
        point = np.zeros(S)
        point[face] = scores[face] + (1 - scores[face].sum()) / len(face)
        if (point >= 0).all():
            points.append(point)
    return min(points, key=lambda point: ((point - scores) ** 2).sum())


@pytest.mark.parametrize("unit", [1.0, 0.4, 0.07])
def test_sparsemax_is_the_projection_onto_the_simplex(unit):
    check_normalizer("sparsemax", projection, unit)


def test_sparsemax_jacobian():
    """∂w/∂s = diag(1_A) − 1_A 1_Aᵀ / |A|, with A the nonzero weights (Martins and Astudillo 2016, eq. 9)."""
    scores = torch.tensor([0.3, -1.2, 0.1, 0.7, -0.1], dtype=torch.float64)
    mask = torch.tensor([[[True, True, True, False, True]]])
    normalizer = build("normalizer", "sparsemax")
    jacobian = torch.autograd.functional.jacobian(lambda s: normalizer(s[None, None], mask)[0, 0], scores)
    A = np.array([1.0, 0, 1, 0, 1])
    np.testing.assert_allclose(jacobian.numpy(), np.diag(A) - np.outer(A, A) / A.sum(), atol=1e-12)


def test_sparsemax_is_exact_with_large_scores():
    scores = torch.tensor([[[1e4, 1e4, 1e4 - 2]]])
    assert build("normalizer", "sparsemax")(scores, None).tolist() == [[[0.5, 0.5, 0]]]

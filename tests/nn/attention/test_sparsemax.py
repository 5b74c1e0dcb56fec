"""Sparsemax against a projection by brute force."""

from itertools import chain, combinations

import numpy as np
import pytest
import torch

from seqloom.registry import build
from tests.nn.attention.formulas import check_normaliser


def projection(scores):
    """The nearest point of the simplex: of every face the nearest point of its plane, where that is in the face."""
    S = len(scores)
    points = []
    for face in map(list, chain.from_iterable(combinations(range(S), n) for n in range(1, S + 1))):
        point = np.zeros(S)
        point[face] = scores[face] + (1 - scores[face].sum()) / len(face)
        if (point >= 0).all():
            points.append(point)
    return min(points, key=lambda point: ((point - scores) ** 2).sum())


@pytest.mark.parametrize("unit", [1.0, 0.4, 0.07])
def test_it_is_the_projection_onto_the_simplex(unit):
    check_normaliser("sparsemax", projection, unit)


def test_its_jacobian():
    """∂w/∂s = diag(1_A) − 1_A 1_Aᵀ / |A|, with A what has weight (Martins and Astudillo 2016, eq. 9)."""
    scores = torch.tensor([0.3, -1.2, 0.1, 0.7, -0.1], dtype=torch.float64)
    mask = torch.tensor([[[True, True, True, False, True]]])
    normaliser = build("normaliser", "sparsemax")
    jacobian = torch.autograd.functional.jacobian(lambda s: normaliser(s[None, None], mask)[0, 0], scores)
    A = np.array([1.0, 0, 1, 0, 1])
    np.testing.assert_allclose(jacobian.numpy(), np.diag(A) - np.outer(A, A) / A.sum(), atol=1e-12)


def test_great_scores_keep_their_differences():
    scores = torch.tensor([[[1e4, 1e4, 1e4 - 2]]])
    assert build("normaliser", "sparsemax")(scores, None).tolist() == [[[0.5, 0.5, 0]]]

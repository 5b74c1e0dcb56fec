"""Softmax."""

import numpy as np
import torch

from seqloom.registry import build
from tests.nn.attention.formulas import check_normalizer


def test_formula():
    check_normalizer("softmax", lambda scores: np.exp(scores) / np.exp(scores).sum())


def test_softmax_does_not_overflow_with_large_scores():
    scores = torch.tensor([[[1e4, 1e4, -1e4]]])
    assert build("normalizer", "softmax")(scores, None).tolist() == [[[0.5, 0.5, 0]]]

"""The soft choice."""

import numpy as np
import torch

from seqloom.registry import build
from tests.nn.attention.formulas import check_normaliser


def test_formula():
    check_normaliser("softmax", lambda scores: np.exp(scores) / np.exp(scores).sum())


def test_great_scores_do_not_overflow():
    scores = torch.tensor([[[1e4, 1e4, -1e4]]])
    assert build("normaliser", "softmax")(scores, None).tolist() == [[[0.5, 0.5, 0]]]

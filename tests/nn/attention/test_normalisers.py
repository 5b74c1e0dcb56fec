"""From scores to weights: values, masks, rows with nothing to see, ties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.registry import build, parts
from tests.nn.helpers import assert_equal, masks

S = 5
every_normaliser = pytest.mark.parametrize("name", parts("normaliser"))


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def closest(scores):
    weights = np.zeros(len(scores))
    best = max(range(len(scores)), key=lambda s: (scores[s], -s))
    weights[best] = 1
    return weights


def exact(scores):
    weights = np.zeros(len(scores))
    found = [s for s in range(len(scores)) if scores[s] == 0]
    if found:
        weights[found[-1]] = 1
    return weights


FORMULAS = {"softmax": softmax, "closest": closest, "exact": exact}


def expected(name, scores, mask):
    """The formula on what may be seen, and zeros elsewhere."""
    if name not in FORMULAS:
        pytest.fail(f"normaliser {name!r} has no numpy formula: add it to FORMULAS here")
    weights = torch.zeros_like(scores)
    for b in range(len(scores)):
        for t in range(scores.shape[1]):
            seen = mask[b, t]
            if seen.any():
                weights[b, t, seen] = torch.tensor(FORMULAS[name](scores[b, t, seen].numpy()))
    return weights


# Scores of a few whole numbers: ties and zeros are common.
some_scores = st.lists(st.integers(-2, 0), min_size=6 * S, max_size=6 * S).map(
    lambda x: torch.tensor(x, dtype=torch.float64).view(2, 3, S)
)


@every_normaliser
@given(scores=some_scores, mask=masks(6, S, least=0))
@settings(max_examples=60, deadline=None)
def test_a_normaliser_is_its_formula_on_what_is_seen(name, scores, mask):
    mask = mask.view(2, 3, S)
    assert_equal(build("normaliser", name)(scores, mask), expected(name, scores, mask))


@every_normaliser
@given(scores=some_scores)
@settings(max_examples=20, deadline=None)
def test_without_a_mask_all_is_seen(name, scores):
    everything = torch.ones_like(scores, dtype=torch.bool)
    assert_equal(build("normaliser", name)(scores, None), expected(name, scores, everything))


@every_normaliser
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_hidden_has_no_say_however_high(name, dtype):
    scores = torch.tensor([[[0.0, -1.0, 1e30, 0.0]]], dtype=dtype)
    mask = torch.tensor([[[True, True, False, False]]])
    weights = build("normaliser", name)(scores, mask)
    assert_equal(weights[..., :2], build("normaliser", name)(scores[..., :2], None), 1e-6)
    assert not weights[..., 2:].any()
    assert weights.dtype == dtype


@every_normaliser
def test_nothing_to_see_gives_no_weight_and_no_nan(name):
    scores = torch.tensor([[[0.0, -1.0], [0.0, -1.0]]], requires_grad=True)
    mask = torch.tensor([[[False, False], [True, True]]])
    weights = build("normaliser", name)(scores, mask)
    assert weights[0, 0].tolist() == [0, 0]
    assert weights[0, 1].sum() == 1
    if build("normaliser", name).differentiable:
        (grad,) = torch.autograd.grad(weights[..., 0].sum(), scores)
        assert grad[0, 0].tolist() == [0, 0]
        assert grad[0, 1].isfinite().all()
        assert grad[0, 1].any()
    else:
        assert not weights.requires_grad


@every_normaliser
def test_a_memory_of_no_steps(name):
    assert build("normaliser", name)(torch.zeros(2, 3, 0), None).shape == (2, 3, 0)


def test_ties():
    scores = torch.tensor([[[-1.0, 0.0, 0.0, -1.0]]])
    assert build("normaliser", "closest")(scores, None).tolist() == [[[0, 1, 0, 0]]]
    assert build("normaliser", "exact")(scores, None).tolist() == [[[0, 0, 1, 0]]]
    assert build("normaliser", "exact")(scores - 1, None).tolist() == [[[0, 0, 0, 0]]]


def test_softmax_of_great_scores_does_not_overflow():
    scores = torch.tensor([[[1e4, 1e4, -1e4]]])
    assert build("normaliser", "softmax")(scores, None).tolist() == [[[0.5, 0.5, 0]]]

"""Requirements on every normalizer: weights, masks, fully masked rows. Each formula is tested in its own file."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.registry import build, parts
from tests.nn.helpers import assert_equal, masks

S = 5
every_normalizer = pytest.mark.parametrize("name", parts("normalizer"))


# Scores are a few integers, so that ties and zeros are common.
some_scores = st.lists(st.integers(-2, 0), min_size=6 * S, max_size=6 * S).map(
    lambda x: torch.tensor(x, dtype=torch.float64).view(2, 3, S)
)


@every_normalizer
@given(scores=some_scores, mask=masks(6, S, min_steps=0))
@settings(max_examples=60, deadline=None)
def test_unmasked_positions_get_the_same_weights_without_the_others(name, scores, mask):
    normalizer, mask = build("normalizer", name), mask.view(2, 3, S)
    weights = normalizer(scores, mask)
    assert not weights[~mask].any()
    for row, visible, row_scores in zip(weights.flatten(0, 1), mask.flatten(0, 1), scores.flatten(0, 1), strict=True):
        assert_equal(row[visible], normalizer(row_scores[visible][None, None], None)[0, 0])


@every_normalizer
@given(scores=some_scores)
@settings(max_examples=20, deadline=None)
def test_weights_are_nonnegative_and_sum_to_one(name, scores):
    normalizer = build("normalizer", name)
    weights = normalizer(scores, None)
    assert (weights >= 0).all()
    if normalizer.sums_to_one:
        assert_equal(weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))


@every_normalizer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masked_positions_get_zero_weight(name, dtype):
    scores = torch.tensor([[[0.0, -1.0, 1e30, 0.0]]], dtype=dtype)
    mask = torch.tensor([[[True, True, False, False]]])
    weights = build("normalizer", name)(scores, mask)
    assert_equal(weights[..., :2], build("normalizer", name)(scores[..., :2], None), 1e-6)
    assert not weights[..., 2:].any()
    assert weights.dtype == dtype


@every_normalizer
def test_fully_masked_query_gets_zero_weights_and_finite_gradients(name):
    scores = torch.tensor([[[0.0, -0.5], [0.0, -0.5]]], requires_grad=True)
    mask = torch.tensor([[[False, False], [True, True]]])
    weights = build("normalizer", name)(scores, mask)
    assert weights[0, 0].tolist() == [0, 0]
    assert weights[0, 1].sum() == 1
    if build("normalizer", name).differentiable:
        (grad,) = torch.autograd.grad(weights[..., 0].sum(), scores)
        assert grad[0, 0].tolist() == [0, 0]
        assert grad[0, 1].isfinite().all()
        assert grad[0, 1].any()
    else:
        assert not weights.requires_grad


@every_normalizer
def test_normalizers_accept_zero_keys(name):
    assert build("normalizer", name)(torch.zeros(2, 3, 0), None).shape == (2, 3, 0)

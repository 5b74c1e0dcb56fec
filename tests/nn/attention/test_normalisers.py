"""What every normaliser must do: shares, masks, rows with nothing to see. Formulas are in a file for each."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.registry import build, parts
from tests.nn.helpers import assert_equal, masks

S = 5
every_normaliser = pytest.mark.parametrize("name", parts("normaliser"))


# Scores of a few whole numbers: ties and zeros are common.
some_scores = st.lists(st.integers(-2, 0), min_size=6 * S, max_size=6 * S).map(
    lambda x: torch.tensor(x, dtype=torch.float64).view(2, 3, S)
)


@every_normaliser
@given(scores=some_scores, mask=masks(6, S, least=0))
@settings(max_examples=60, deadline=None)
def test_what_is_seen_is_weighed_as_if_it_were_all(name, scores, mask):
    normaliser, mask = build("normaliser", name), mask.view(2, 3, S)
    weights = normaliser(scores, mask)
    assert not weights[~mask].any()
    for row, seen, all_ in zip(weights.flatten(0, 1), mask.flatten(0, 1), scores.flatten(0, 1), strict=True):
        assert_equal(row[seen], normaliser(all_[seen][None, None], None)[0, 0])


@every_normaliser
@given(scores=some_scores)
@settings(max_examples=20, deadline=None)
def test_weights_are_shares(name, scores):
    normaliser = build("normaliser", name)
    weights = normaliser(scores, None)
    assert (weights >= 0).all()
    if normaliser.complete:
        assert_equal(weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))


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
    scores = torch.tensor([[[0.0, -0.5], [0.0, -0.5]]], requires_grad=True)
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

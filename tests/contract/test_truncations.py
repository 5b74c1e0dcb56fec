"""The contract of every registered truncation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decode.sample import Sample
from seqloom.registry import build
from tests.decode.reference import batch_for, real_model
from tests.variants import every, label

V = 7
every_truncation = pytest.mark.parametrize("spec", every("truncation"), ids=label)
distributions = (
    st.lists(st.integers(0, 6), min_size=2 * V, max_size=2 * V)
    .map(lambda x: torch.tensor(x, dtype=torch.float64).view(2, V) ** 3)
    .filter(lambda x: bool((x.sum(1) > 0).all()))
    .map(lambda x: x / x.sum(1, keepdim=True))
)
"""Two distributions each, with ties, and with tokens of probability 0, which are not allowed."""


def truncated(spec, probs):
    """The truncated distribution, normalized."""
    probs = build("truncation", spec)(probs)
    return probs / probs.sum(-1, keepdim=True)


@every_truncation
@given(probs=distributions)
@settings(max_examples=60, deadline=None)
def test_truncation_keeps_the_proportions(spec, probs):
    q = truncated(spec, probs)
    assert q.isfinite().all(), "no token was kept"
    kept = q > 0
    assert not kept[probs == 0].any()
    share = (probs * kept).sum(-1, keepdim=True)
    torch.testing.assert_close(q, probs * kept / share)


@every_truncation
@given(probs=distributions)
@settings(max_examples=60, deadline=None)
def test_most_likely_token_and_ties_are_kept(spec, probs):
    kept = truncated(spec, probs) > 0
    if build("truncation", spec).keeps_most_likely:
        assert kept[probs == probs.amax(-1, keepdim=True)].all()
    equal = probs[..., :, None] == probs[..., None, :]
    assert (kept[..., :, None] == kept[..., None, :])[equal].all()


@every_truncation
@given(probs=distributions, order=st.permutations(range(V)))
@settings(max_examples=40, deadline=None)
def test_truncation_does_not_depend_on_the_order_of_tokens_or_other_rows(spec, probs, order):
    q = truncated(spec, probs)
    assert torch.equal(truncated(spec, probs[:, order]) > 0, q[:, order] > 0)
    for row in range(2):
        assert torch.equal(truncated(spec, probs[row]) > 0, q[row] > 0)
        assert torch.equal(truncated(spec, probs[row, None, None])[0, 0] > 0, q[row] > 0)


@every_truncation
@given(probs=distributions)
@settings(max_examples=40, deadline=None)
def test_probabilities_need_not_sum_to_1(spec, probs):
    """They don't after another truncation."""
    torch.testing.assert_close(truncated(spec, probs / 4), truncated(spec, probs))


@every_truncation
def test_sampling_with_one_or_two_truncations(spec):
    model = real_model("luong", vocabulary=V)
    batch = batch_for(model, [[4, 5, 6], [7]])
    for truncate in (spec, [{"name": "top_k", "k": 3}, spec]):
        results = Sample(samples=4, max_length=3, truncate=truncate)(model, batch)
        assert all(len(hypotheses) == 4 for hypotheses in results)

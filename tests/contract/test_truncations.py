"""What every registered truncation must do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decode.sample import Sample
from seqloom.registry import build
from tests.decode.plain import batch_for, real_model
from tests.variants import every, label

V = 7
every_truncation = pytest.mark.parametrize("spec", every("truncation"), ids=label)
distributions = (
    st.lists(st.integers(0, 6), min_size=2 * V, max_size=2 * V)
    .map(lambda x: torch.tensor(x, dtype=torch.float64).view(2, V) ** 3)
    .filter(lambda x: bool((x.sum(1) > 0).all()))
    .map(lambda x: x / x.sum(1, keepdim=True))
)
"""Two of them each, with ties and with tokens that are not allowed, which have no probability."""


def left(spec, probs):
    """What is left, as a distribution."""
    probs = build("truncation", spec)(probs)
    return probs / probs.sum(-1, keepdim=True)


@every_truncation
@given(probs=distributions)
@settings(max_examples=60, deadline=None)
def test_what_is_left_keeps_its_proportions(spec, probs):
    q = left(spec, probs)
    assert q.isfinite().all(), "nothing is left"
    kept = q > 0
    assert not kept[probs == 0].any()
    share = (probs * kept).sum(-1, keepdim=True)
    torch.testing.assert_close(q, probs * kept / share)


@every_truncation
@given(probs=distributions)
@settings(max_examples=60, deadline=None)
def test_the_likeliest_stays_where_it_should_and_equals_stay_together(spec, probs):
    kept = left(spec, probs) > 0
    if build("truncation", spec).keeps_likeliest:
        assert kept[probs == probs.amax(-1, keepdim=True)].all()
    equal = probs[..., :, None] == probs[..., None, :]
    assert (kept[..., :, None] == kept[..., None, :])[equal].all()


@every_truncation
@given(probs=distributions, order=st.permutations(range(V)))
@settings(max_examples=40, deadline=None)
def test_neither_the_order_of_the_tokens_nor_other_rows_matter(spec, probs, order):
    q = left(spec, probs)
    assert torch.equal(left(spec, probs[:, order]) > 0, q[:, order] > 0)
    for row in range(2):
        assert torch.equal(left(spec, probs[row]) > 0, q[row] > 0)
        assert torch.equal(left(spec, probs[row, None, None])[0, 0] > 0, q[row] > 0)


@every_truncation
@given(probs=distributions)
@settings(max_examples=40, deadline=None)
def test_it_may_follow_another(spec, probs):
    """Then what it is given no longer adds up to 1."""
    torch.testing.assert_close(left(spec, probs / 4), left(spec, probs))


@every_truncation
def test_sampling_draws_from_what_is_left(spec):
    model = real_model("luong", vocabulary=V)
    batch = batch_for(model, [[4, 5, 6], [7]])
    for truncate in (spec, [{"name": "top_k", "k": 3}, spec]):
        answers = Sample(samples=4, max_length=3, truncate=truncate)(model, batch)
        assert all(len(found) == 4 for found in answers)

"""How long outputs may be, where the training data decides."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.batch import pad
from seqloom.decode.lengths import Lengths, Limits

PAIRS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 250)), min_size=1, max_size=30)


def limits_of(pairs):
    return Limits(max(s for s, _ in pairs), max(t for _, t in pairs), max(t / s for s, t in pairs))


@given(PAIRS)
def test_no_target_of_the_training_data_is_truncated_and_there_is_a_margin(pairs):
    most = limits_of(pairs).most(torch.tensor([s for s, _ in pairs])).tolist()
    assert all(limit >= 1.25 * t + 10 - 1e-3 for limit, (_, t) in zip(most, pairs, strict=True))


@given(PAIRS, st.integers(1, 60))
def test_outputs_for_usual_sources_stay_bounded_by_the_longest_target(pairs, length):
    limits = limits_of(pairs)
    usual = min(length, limits.source)
    assert limits.most(torch.tensor([usual])).item() <= 1.25 * limits.target + 11


def test_longer_sources_may_have_outputs_longer_in_proportion():
    limits = Limits(source=10, target=20, ratio=2.0)
    assert limits.most(torch.tensor([10, 100])).tolist() == [35, 260]


def test_options_override_the_training_data():
    source, cpu, limits = pad([[5] * 4]), torch.device("cpu"), Limits(4, 100, 25.0)
    for options, most in (((0, None, 0.0, None), 135), ((0, 7, 0.0, None), 7), ((0, None, 0.0, 2.0), 8)):
        assert Lengths(*options).bounds(source, 1, cpu, limits=limits)[1].tolist() == [most]
    what_the_model_can_write = Lengths(0, None, 0.0, None).bounds(source, 1, cpu, longest=50, limits=limits)
    assert what_the_model_can_write[1].tolist() == [50]

"""The maximum length derived from the lengths in the training data."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.batch import pad
from seqloom.decode.lengths import LengthLimits, TrainingLengths

PAIRS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 250)), min_size=1, max_size=30)


def lengths_of(pairs):
    return TrainingLengths(max(s for s, _ in pairs), max(t for _, t in pairs), max(t / s for s, t in pairs))


@given(PAIRS)
def test_maximum_exceeds_every_training_target_by_the_margin(pairs):
    max_length = lengths_of(pairs).max_length(torch.tensor([s for s, _ in pairs])).tolist()
    assert all(limit >= 1.25 * t + 10 - 1e-3 for limit, (_, t) in zip(max_length, pairs, strict=True))


@given(PAIRS, st.integers(1, 60))
def test_maximum_for_training_lengths_is_bounded_by_the_longest_target(pairs, length):
    lengths = lengths_of(pairs)
    usual = min(length, lengths.source)
    assert lengths.max_length(torch.tensor([usual])).item() <= 1.25 * lengths.target + 11


def test_maximum_grows_in_proportion_for_longer_sources():
    lengths = TrainingLengths(source=10, target=20, ratio=2.0)
    assert lengths.max_length(torch.tensor([10, 100])).tolist() == [35, 260]


def test_options_override_training_lengths():
    source, cpu, lengths = pad([[5] * 4]), torch.device("cpu"), TrainingLengths(4, 100, 25.0)
    for options, max_length in (((0, None, 0.0, None), 135), ((0, 7, 0.0, None), 7), ((0, None, 0.0, 2.0), 8)):
        assert LengthLimits(*options).bounds(source, 1, cpu, training_lengths=lengths)[1].tolist() == [max_length]
    model_maximum = LengthLimits(0, None, 0.0, None).bounds(
        source, 1, cpu, model_max_length=50, training_lengths=lengths
    )
    assert model_maximum[1].tolist() == [50]

"""Bucketing: every example once, batch size limits, little padding, and an order fixed by seed and epoch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.batchers import BatchSize, Bucketed, bucketed
from seqloom.errors import ConfigError

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=120)


class Lengths:
    """A corpus reduced to its lengths, which is all that a plan needs."""

    def __init__(self, **lengths):
        self.lengths = lengths


def batcher_of(source, target, *, tokens=None, sentences=None, seed):
    return Bucketed(Lengths(source=source, target=target), BatchSize(tokens, sentences), seed)


def sentence_lengths(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Source and target lengths distributed as in Multi30k."""
    noise = np.random.default_rng(seed).multivariate_normal(
        [2.5, 2.5], 0.33**2 * np.array([[1, 0.87], [0.87, 1]]), count
    )
    lengths = np.clip(np.exp(noise), 3, 45).astype(np.int32)
    return lengths[:, 0], lengths[:, 1]


@settings(max_examples=150, deadline=None)
@given(
    lengths=LENGTHS, tokens=st.integers(1, 200), max_sentences=st.none() | st.integers(1, 9), pool=st.integers(1, 50)
)
def test_plan_has_every_example_once_and_respects_the_batch_size(lengths, tokens, max_sentences, pool):
    source, target = np.array(lengths).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucketed, "POOL_SIZE", pool)
        plan = batcher_of(source, target, tokens=tokens, sentences=max_sentences, seed=3).plan(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    for batch in plan:
        area = len(batch) * max(source[batch].max(), target[batch].max())
        assert area <= tokens or len(batch) == 1
        assert max_sentences is None or len(batch) <= max_sentences


@settings(max_examples=150, deadline=None)
@given(lengths=LENGTHS, tokens=st.integers(1, 200), max_sentences=st.none() | st.integers(1, 9))
def test_batches_are_as_large_as_allowed(lengths, tokens, max_sentences):
    source, target = np.array(lengths).T
    longest = np.maximum(source, target)
    begin = 0
    batcher = batcher_of(source, target, tokens=tokens, sentences=max_sentences, seed=3)
    for batch in batcher._split(np.arange(len(lengths)), longest):
        assert batch.tolist() == list(range(begin, begin + len(batch)))
        begin += len(batch)
        one_more = longest[batch[0] : begin + 1]
        assert begin == len(lengths) or len(batch) == max_sentences or len(one_more) * one_more.max() > tokens
    assert begin == len(lengths)


@settings(max_examples=80, deadline=None)
@given(lengths=LENGTHS, size=st.integers(1, 20), pool=st.integers(1, 50))
def test_all_batches_but_the_last_have_exactly_sentences_examples(lengths, size, pool):
    source, target = np.array(lengths).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucketed, "POOL_SIZE", pool)
        plan = batcher_of(source, target, sentences=size, seed=3).plan(0)
    full, rest = divmod(len(lengths), size)
    assert sorted((len(batch) for batch in plan), reverse=True) == [size] * full + [rest] * (rest > 0)


def test_share_of_padding_is_small():
    source, target = sentence_lengths(29_000)
    batcher = batcher_of(source, target, tokens=4096, seed=1)
    plan = batcher.plan(0)
    real = source.sum() + target.sum()
    padded = sum(len(b) * (source[b].max() + target[b].max()) for b in plan)
    assert 1 - real / padded < 0.08
    assert batcher.padding_share(plan) == pytest.approx(1 - real / padded)


def test_batches_are_close_to_the_token_limit():
    source, target = sentence_lengths(29_000)
    plan = batcher_of(source, target, tokens=4096, seed=1).plan(0)
    areas = [len(b) * max(source[b].max(), target[b].max()) for b in plan]
    assert np.median(areas) > 0.95 * 4096


def test_plan_depends_only_on_seed_and_epoch():
    source, target = sentence_lengths(500)
    code = (
        "import numpy as np; from tests.data.test_batches import batcher_of, sentence_lengths; "
        "b = batcher_of(*sentence_lengths(500), tokens=200, seed=5); b.plan(0); "
        "print([x.tolist() for x in b.plan(3)])"
    )
    root = Path(__file__).parents[2]
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    plans = {
        (seed, epoch): str([b.tolist() for b in batcher_of(source, target, tokens=200, seed=seed).plan(epoch)])
        for seed in (5, 6)
        for epoch in (3, 4)
    }
    assert plans[5, 3] == other.stdout.strip()
    assert len(set(plans.values())) == 4


def test_batches_are_mixed_differently_in_every_epoch():
    """Few examples of a batch share one in the next epoch too, and batches are not ordered by length."""
    source, target = sentence_lengths(29_000)
    batcher = batcher_of(source, target, sentences=64, seed=1)
    number = []
    for epoch in (0, 1):
        plan = batcher.plan(epoch)
        means = [target[b].mean() for b in plan]
        assert abs(np.corrcoef(means, np.arange(len(plan)))[0, 1]) < 0.2
        number.append(np.empty(len(source), np.int64))
        for n, batch in enumerate(plan):
            number[epoch][batch] = n
    again = np.unique(number[0] * len(source) + number[1], return_counts=True)[1]
    together = np.unique(number[0], return_counts=True)[1]
    assert (again * (again - 1)).sum() / (together * (together - 1)).sum() < 0.15


def test_missing_or_invalid_batch_size_is_rejected():
    with pytest.raises(ConfigError, match="tokens, sentences"):
        batcher_of(*sentence_lengths(3), seed=1)
    with pytest.raises(ConfigError, match="at least 1"):
        batcher_of(*sentence_lengths(3), tokens=0, seed=1)

"""Batches: padding, masks, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import END, PAD, START, UNKNOWN, hiding, pad
from seqloom.errors import InputError, SizeError

ids = st.integers(UNKNOWN, 50)
some_rows = st.lists(st.lists(ids, min_size=1, max_size=6), min_size=1, max_size=5)
YES = torch.ones(2, 3, dtype=torch.bool)


def test_a_mask_that_hides_nothing_is_none():
    assert hiding(None) is None
    assert hiding(YES) is None
    some = YES.clone()
    some[1, 2] = False
    assert hiding(some) is some
    unseen = YES.to("meta")
    assert hiding(unseen) is unseen


def test_the_special_symbols_come_first():
    assert sorted([PAD, START, END, UNKNOWN]) == [0, 1, 2, 3]


@given(some_rows)
def test_padding_is_undone_by_the_mask(rows):
    padded, mask = pad(rows)
    assert [r[m].tolist() for r, m in zip(padded, mask, strict=True)] == rows
    assert padded.shape == mask.shape == (len(rows), max(map(len, rows)))
    assert (padded[~mask] == PAD).all()
    assert not (mask[:, 1:] & ~mask[:, :-1]).any(), "padding is at the end"


@given(st.lists(st.lists(ids, max_size=6), min_size=1, max_size=5))
def test_end_is_put_behind_every_target(targets):
    batch = Batch.of(targets)
    rows = [r[m].tolist() for r, m in zip(batch.target, batch.target_mask, strict=True)]
    assert rows == [[*target, END] for target in targets]
    assert batch.source is None
    assert batch.source_mask is None


@given(some_rows)
def test_a_source_has_no_end(sources):
    batch = Batch.of([[] for _ in sources], sources)
    assert [r[m].tolist() for r, m in zip(batch.source, batch.source_mask, strict=True)] == sources
    assert batch.source.dtype == batch.target.dtype == torch.long


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Batch.of([[3]], [[]]), InputError, "the source is empty"),
        (lambda: Batch.of([[3], [4]], [[5], []]), InputError, "the source of row 1 is empty"),
        (lambda: Batch.of([[3], [4]], [[5]]), SizeError, "1 sources and 2 targets"),
        (lambda: Batch.of([]), InputError, "no examples"),
        (lambda: Batch(YES.long(), ~YES), InputError, "the target of row 0 is empty"),
        (lambda: Batch(YES.long(), YES.long()), InputError, "must be of bool, True where real; it is of torch.int64"),
        (lambda: Batch(YES.long(), YES[:, :2]), SizeError, "the target is (2, 3) but its mask is (2, 2)"),
        (lambda: Batch(YES.long(), YES[0]), SizeError, "the target is (2, 3) but its mask is (3,)"),
        (lambda: Batch(YES.long(), YES, YES.long(), YES.float()), InputError, "the source's mask must be of bool"),
        (lambda: Batch(YES.long(), YES, YES.long(), YES[:, 1:]), SizeError, "the source is (2, 3)"),
        (lambda: Batch(YES.long(), YES, YES.long()), InputError, "a source and its mask, or neither"),
        (lambda: Batch(YES.long(), YES, None, YES), InputError, "a source and its mask, or neither"),
    ],
)
def test_what_no_model_can_work_on_is_refused(make, error, says):
    with pytest.raises(error) as raised:
        make()
    assert says in str(raised.value)


def test_a_batch_goes_to_another_device_whole():
    batch = Batch.of([[3], [4, 5]], [[5, 6], [7]]).to("meta")
    assert all(t.is_meta for t in (batch.target, batch.target_mask, batch.source, batch.source_mask))
    assert Batch.of([[3]]).to("meta").source is None

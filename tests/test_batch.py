"""Batches: padding, masks, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import END, PAD, START, UNKNOWN, Padded, hiding, pad
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
def test_end_is_added_to_every_target(targets):
    batch = Batch.of(targets)
    rows = [r[m].tolist() for r, m in zip(*batch.target, strict=True)]
    assert rows == [[*target, END] for target in targets]
    assert batch.source is None
    assert batch.rows == len(targets)


@given(some_rows)
def test_a_source_has_no_end(sources):
    batch = Batch.of([[] for _ in sources], sources)
    assert [r[m].tolist() for r, m in zip(*batch.source, strict=True)] == sources
    assert batch.source.lengths.tolist() == list(map(len, sources))
    assert batch.source.values.dtype == batch.target.values.dtype == torch.long


def batch(mask=YES, **more) -> Batch:
    return Batch({"target": Padded(YES.long(), mask), **{name: Padded(YES.long(), m) for name, m in more.items()}})


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Batch.of([[3]], [[]]), InputError, "the source is empty"),
        (lambda: Batch.of([[3], [4]], [[5], []]), InputError, "the source of row 1 is empty"),
        (lambda: Batch.of([[3], [4]], [[5]]), SizeError, "2 of 'target' and 1 of 'source'"),
        (lambda: Batch.of([]), InputError, "no examples"),
        (lambda: Batch({}), InputError, "at least one field"),
        (lambda: batch(~YES), InputError, "the target of row 0 is empty"),
        (lambda: batch(YES.long()), InputError, "must be of bool, True where real; it is of torch.int64"),
        (lambda: batch(YES[:, :2]), SizeError, "the target is (2, 3) but its mask is (2, 2)"),
        (lambda: batch(YES[0]), SizeError, "the target is (2, 3) but its mask is (3,)"),
        (lambda: batch(source=YES.float()), InputError, "the source's mask must be of bool"),
        (lambda: batch(tags=YES[:, 1:]), SizeError, "the tags is (2, 3)"),
        (lambda: batch()["source"], InputError, "no field 'source', only 'target'"),
    ],
)
def test_invalid_batches_are_refused(make, error, says):
    with pytest.raises(error) as raised:
        make()
    assert says in str(raised.value)


def test_a_batch_has_any_number_of_fields():
    tags = Padded(torch.zeros(2, 4, 7), torch.ones(2, 4, dtype=torch.bool))
    mixed = Batch({**Batch.of([[3], [4, 5]]).fields, "tags": tags})
    assert mixed["tags"] is tags
    assert list(mixed.fields) == ["target", "tags"]


def test_a_batch_moves_to_another_device():
    moved = Batch.of([[3], [4, 5]], [[5, 6], [7]]).to("meta")
    assert all(tensor.is_meta for field in moved.fields.values() for tensor in field)
    assert Batch.of([[3]]).to("meta").source is None


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("pattern", [[False, True, True], [True, False, True]], ids=["before", "between"])
def test_padding_that_is_not_at_the_end_is_refused(side, pattern):
    ids, mask = torch.full((1, 3), 4), torch.tensor([pattern])
    with pytest.raises(InputError, match=f"end of a row, and the {side}"):
        Batch({side: Padded(ids, mask)})

"""Batches: padding, masks and errors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import BOS, EOS, PAD, UNK, Padded, mask_if_padded, pad
from seqloom.errors import InputError, ShapeError

ids = st.integers(UNK, 50)
token_rows = st.lists(st.lists(ids, min_size=1, max_size=6), min_size=1, max_size=5)
ALL_REAL = torch.ones(2, 3, dtype=torch.bool)


def test_mask_if_padded_is_none_without_padding():
    assert mask_if_padded(None) is None
    assert mask_if_padded(ALL_REAL) is None
    padded = ALL_REAL.clone()
    padded[1, 2] = False
    assert mask_if_padded(padded) is padded
    on_meta = ALL_REAL.to("meta")
    assert mask_if_padded(on_meta) is on_meta


def test_special_tokens_have_the_first_ids():
    assert sorted([PAD, BOS, EOS, UNK]) == [0, 1, 2, 3]


@given(token_rows)
def test_mask_recovers_rows_before_padding(rows):
    padded, mask = pad(rows)
    assert [r[m].tolist() for r, m in zip(padded, mask, strict=True)] == rows
    assert padded.shape == mask.shape == (len(rows), max(map(len, rows)))
    assert (padded[~mask] == PAD).all()
    assert not (mask[:, 1:] & ~mask[:, :-1]).any(), "padding is at the end"


@given(st.lists(st.lists(ids, max_size=6), min_size=1, max_size=5))
def test_eos_is_appended_to_every_target(targets):
    batch = Batch.from_lists(targets)
    rows = [r[m].tolist() for r, m in zip(*batch.target, strict=True)]
    assert rows == [[*target, EOS] for target in targets]
    assert batch.source is None
    assert batch.rows == len(targets)


@given(token_rows)
def test_source_has_no_eos(sources):
    batch = Batch.from_lists([[] for _ in sources], sources)
    assert [r[m].tolist() for r, m in zip(*batch.source, strict=True)] == sources
    assert batch.source.lengths.tolist() == list(map(len, sources))
    assert batch.source.values.dtype == batch.target.values.dtype == torch.long


def make_batch(mask=ALL_REAL, **more) -> Batch:
    return Batch(
        {"target": Padded(ALL_REAL.long(), mask), **{name: Padded(ALL_REAL.long(), m) for name, m in more.items()}}
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Batch.from_lists([[3]], [[]]), InputError, "the source is empty"),
        (lambda: Batch.from_lists([[3], [4]], [[5], []]), InputError, "the source of row 1 is empty"),
        (lambda: Batch.from_lists([[3], [4]], [[5]]), ShapeError, "2 of 'target' and 1 of 'source'"),
        (lambda: Batch.from_lists([]), InputError, "at least one example"),
        (lambda: Batch({}), InputError, "at least one field"),
        (lambda: make_batch(~ALL_REAL), InputError, "the target of row 0 is empty"),
        (
            lambda: make_batch(ALL_REAL.long()),
            InputError,
            "the target must be bool, True for real steps and False for padding; it is torch.int64",
        ),
        (
            lambda: make_batch(ALL_REAL[:, :2]),
            ShapeError,
            "the target has shape (2, 3), but its mask has shape (2, 2)",
        ),
        (lambda: make_batch(ALL_REAL[0]), ShapeError, "the target has shape (2, 3), but its mask has shape (3,)"),
        (lambda: make_batch(source=ALL_REAL.float()), InputError, "the mask of the source must be bool"),
        (lambda: make_batch(tags=ALL_REAL[:, 1:]), ShapeError, "the tags has shape (2, 3)"),
        (lambda: make_batch()["source"], InputError, "no field 'source', only 'target'"),
    ],
)
def test_invalid_batches_are_errors(make, error, message):
    with pytest.raises(error) as raised:
        make()
    assert message in str(raised.value)


def test_batch_with_additional_fields():
    tags = Padded(torch.zeros(2, 4, 7), torch.ones(2, 4, dtype=torch.bool))
    mixed = Batch({**Batch.from_lists([[3], [4, 5]]).fields, "tags": tags})
    assert mixed["tags"] is tags
    assert list(mixed.fields) == ["target", "tags"]


def test_batch_moves_to_another_device():
    moved = Batch.from_lists([[3], [4, 5]], [[5, 6], [7]]).to("meta")
    assert all(tensor.is_meta for field in moved.fields.values() for tensor in field)
    assert Batch.from_lists([[3]]).to("meta").source is None


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("pattern", [[False, True, True], [True, False, True]], ids=["before", "between"])
def test_padding_before_the_end_is_an_error(side, pattern):
    ids, mask = torch.full((1, 3), 4), torch.tensor([pattern])
    with pytest.raises(InputError, match=f"end of a row, but the mask of the {side}"):
        Batch({side: Padded(ids, mask)})

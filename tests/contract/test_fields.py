"""The contract of every registered field, tested with values of a type that it accepts."""

import copy

import numpy as np
import pytest

from seqloom.data.corpus import Corpus, CorpusWriter
from seqloom.data.pad import pad
from seqloom.registry import build
from tests.variants import every, label

VALUES = (
    ["ein Hund", "zwei Hunde", "ein Hund ein Hund"],
    [[3, 1, 2], [7], [5, 4]],
    [[[0.5, -1.0], [0.25, 2.0]], [[1.5, 0.0]], [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]],
)
"""Texts, integers, vectors; a field accepts one of them."""
pytestmark = pytest.mark.parametrize("spec", every("field"), ids=label)


@pytest.fixture
def fitted(spec):
    """A fitted field, values that it accepts, and examples with these values."""
    for values in VALUES:
        field = build("field", {**spec, **({"tokenizer": "character"} if spec["name"] == "text" else {})})
        examples = [{"source": value, "target": value} for value in values]
        try:
            field.fit(iter(copy.deepcopy(values)))
            field.encode(values, examples)
        except Exception:
            continue
        return field, values, examples
    raise AssertionError("the field accepts neither texts nor numbers nor vectors")


def test_decode_inverts_encode(fitted):
    field, values, examples = fitted
    rows = field.encode(values, examples)
    assert [field.decode(row, example) for row, example in zip(rows, examples, strict=True)] == values


def test_encoded_rows_have_the_declared_dtype_and_shape(fitted):
    field, values, examples = fitted
    for row in field.encode(values, examples):
        assert row.dtype == field.dtype
        assert row.shape[1:] == field.shape
        assert len(row) > field.end_steps
        assert len(field.show(row)) == len(row)
        assert all(isinstance(step, str) for step in field.show(row))
    if field.shape:
        assert field.size == np.prod(field.shape)
    else:
        assert max(row.max() for row in field.encode(values, examples)) < field.size


def test_encoding_of_a_value_does_not_depend_on_other_values(fitted):
    field, values, examples = fitted
    together = field.encode(values, examples)
    for value, example, row in zip(values, examples, together, strict=True):
        np.testing.assert_array_equal(field.encode([value], [example])[0], row)


def test_rows_survive_a_corpus_and_a_batch(fitted, tmp_path):
    field, values, examples = fitted
    rows = field.encode(values, examples)
    with CorpusWriter(tmp_path / "x.arrow", {"target": (field.dtype, field.shape)}) as writer:
        writer.add({"target": rows})
    corpus = Corpus.open(tmp_path / "x.arrow")
    padded = corpus.batch(range(len(rows))).target
    for n, row in enumerate(rows):
        np.testing.assert_array_equal(corpus.row("target", n), row)
        np.testing.assert_array_equal(padded.values[n, padded.mask[n]].numpy(), row)
    np.testing.assert_array_equal(pad(rows).values.numpy(), padded.values.numpy())


def test_field_has_default_metrics(fitted):
    field, values, _ = fitted
    assert field.metrics(values)
    assert all(isinstance(name, str) for name in field.metrics(values))

"""The corpus file against ``Batch.from_lists``, which pads plain lists."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.batch import EOS, Batch
from seqloom.data import corpus as corpus_module
from seqloom.data.corpus import Corpus, CorpusWriter
from seqloom.data.examples import Example
from seqloom.data.pad import pad
from seqloom.errors import InputError

ROWS = st.lists(
    st.tuples(*[st.lists(st.integers(4, 200), min_size=1, max_size=12)] * 2),
    min_size=1,
    max_size=40,
)


def ids(vocabulary):
    dtype = np.uint16 if vocabulary <= 1 << 16 else np.int32
    return {"source": (dtype, ()), "target": (dtype, ())}


def assert_equal(one: Batch, other: Batch) -> None:
    assert {*one.fields} == {*other.fields}
    for name, field in one.fields.items():
        for a, b in zip(field, other[name], strict=True):
            assert a.dtype == b.dtype
            assert torch.equal(a, b), name


@settings(max_examples=50, deadline=None)
@given(rows=ROWS, data=st.data(), chunk=st.integers(1, 9), vocabulary=st.sampled_from([300, 1 << 16, (1 << 16) + 1]))
def test_batches_equal_those_of_plain_lists(tmp_path_factory, rows, data, chunk, vocabulary):
    """For any record batches and data type of the ids."""
    path = tmp_path_factory.mktemp("corpus") / "train.arrow"
    rows = [([*s, vocabulary - 1], [*t, vocabulary - 1]) for s, t in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_module, "ROWS_PER_BATCH", 5)
        with CorpusWriter(path, ids(vocabulary)) as writer:
            for n in range(0, len(rows), chunk):
                some = rows[n : n + chunk]
                writer.add({"source": [s for s, _ in some], "target": [[*t, EOS] for _, t in some]})
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    expected = Batch.from_lists([rows[i][1] for i in indices], [rows[i][0] for i in indices])
    corpus = Corpus.open(path)
    assert_equal(corpus.batch(np.array(indices, dtype=np.int32)), expected)
    assert len(corpus) == len(rows)
    assert corpus.lengths["source"].tolist() == [len(s) for s, _ in rows]
    assert corpus.lengths["target"].tolist() == [len(t) + 1 for _, t in rows]
    assert all(lengths.dtype == np.int32 for lengths in corpus.lengths.values())
    for i, (source, target) in enumerate(rows):
        assert corpus.row("source", i).tolist() == source
        assert corpus.row("target", i).tolist() == [*target, EOS]


def test_examples_are_stored_on_request(tmp_path):
    examples = [Example("a", "b"), Example("ä 𝄞", "x\ny", ("r", "s"))]
    with CorpusWriter(tmp_path / "dev.arrow", ids(9), examples=True) as writer:
        for example in examples:
            writer.add({"source": [[4]], "target": [[5]]}, examples=[example])
    corpus = Corpus.open(tmp_path / "dev.arrow")
    assert list(corpus.examples()) == examples
    with CorpusWriter(tmp_path / "train.arrow", ids(9)) as writer:
        writer.add({"source": [[4]], "target": [[5]]})
    with pytest.raises(InputError, match="stores encoded examples only"):
        next(Corpus.open(tmp_path / "train.arrow").examples())


def test_corpus_is_memory_mapped(tmp_path):
    with CorpusWriter(tmp_path / "c.arrow", ids(300)) as writer:
        writer.add({"source": [[7, 8]] * 10, "target": [[9]] * 10})
    corpus = Corpus.open(tmp_path / "c.arrow")
    row = corpus.row("source", 9)
    assert not row.flags.owndata
    content = bytearray((tmp_path / "c.arrow").read_bytes())
    at = content.rindex(np.array([7, 8] * 10, np.uint16).tobytes())
    with open(tmp_path / "c.arrow", "r+b") as file:  # a change of the file must show in the row
        file.seek(at + 9 * 4)
        file.write(np.array([77], np.uint16).tobytes())
    assert row.tolist() == [77, 8]


@pytest.mark.parametrize("content", [b"", b"this is not an Arrow file, only some text"])
def test_invalid_or_missing_file_is_named(tmp_path, content):
    path = tmp_path / "x.arrow"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.arrow"):
        Corpus.open(path)
    with pytest.raises(InputError, match=r"y\.arrow"):
        Corpus.open(tmp_path / "y.arrow")


def test_truncated_file_is_named(tmp_path):
    path = tmp_path / "x.arrow"
    with CorpusWriter(path, ids(300)) as writer:
        writer.add({"source": [[7, 8]] * 10, "target": [[9]] * 10})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"x\.arrow"):
        Corpus.open(path)


@pytest.mark.parametrize("indices", [[], [-1], [2]])
def test_invalid_indices_are_rejected(tmp_path, indices):
    with CorpusWriter(tmp_path / "c.arrow", ids(9)) as writer:
        writer.add({"source": [[4], [5]], "target": [[6], [7]]})
    with pytest.raises(InputError, match=f"example {indices[0]} is out of range" if indices else "at least one"):
        Corpus.open(tmp_path / "c.arrow").batch(np.array(indices, dtype=np.int64))


@pytest.mark.parametrize(("dtype", "shape"), [(np.float32, (3,)), (np.uint8, (2, 3)), (np.float64, ())])
def test_steps_of_any_shape_and_data_type(tmp_path, dtype, shape):
    """For several fields, each padded with zeros at the end."""
    random = np.random.default_rng(1)
    rows = [(9 * random.random((steps, *shape))).astype(dtype) for steps in (3, 1, 7, 2)]
    tags = [[n] for n in range(4)]
    with CorpusWriter(tmp_path / "c.arrow", {"curve": (dtype, shape), "tags": (np.uint16, ())}) as writer:
        writer.add({"curve": rows[:2], "tags": tags[:2]})
        writer.add({"curve": rows[2:], "tags": tags[2:]})
    corpus = Corpus.open(tmp_path / "c.arrow")
    batch = corpus.batch([2, 0])
    expected = np.zeros((2, 7, *shape))
    expected[0], expected[1, :3] = rows[2], rows[0]
    np.testing.assert_allclose(batch["curve"].values.numpy(), expected, rtol=1e-6)
    assert batch["curve"].mask.sum(1).tolist() == [7, 3]
    assert batch["tags"].values.tolist() == [[2], [0]]
    assert corpus.lengths["curve"].tolist() == [3, 1, 7, 2]
    np.testing.assert_array_equal(corpus.row("curve", 2), rows[2])
    padded = pad([rows[2], rows[0]])
    assert torch.equal(padded.values, batch["curve"].values)
    assert torch.equal(padded.mask, batch["curve"].mask)

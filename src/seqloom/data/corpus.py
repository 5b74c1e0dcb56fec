"""The binarized corpus: a memory-mapped Arrow file with one column per field and one row per example.

A field's column holds the values of the array (steps, …) that the field encoded the example to. The optional column
``example`` holds the example as read, in JSON. Rows are stored in record batches, so a writer holds only one of them
in memory. The values of a record batch are one flat buffer with offsets into it. All these buffers are in one mapped
file, so numpy can view the file as *one* array and gather the examples of a batch from it in a single operation.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
from torch.nn.functional import pad

from seqloom.batch import EOS, Batch, Padded
from seqloom.data.examples import Example
from seqloom.data.pad import Array, gather
from seqloom.errors import InputError

ROWS_PER_BATCH = 1 << 16
VERSION = b"2"
VERSION_KEY = b"seqloom.corpus"
SHAPES_KEY = b"seqloom.shapes"
EXAMPLE = "example"

Lengths = npt.NDArray[np.int32]


class Corpus:
    """Encoded examples, written by ``CorpusWriter``.

    lengths: number of steps of each example, by field.
    has_examples: whether the file also stores the examples as read.
    """

    def __init__(self, data: pa.Buffer, name: str) -> None:
        try:
            self._reader = pa.ipc.open_file(pa.BufferReader(data))
        except pa.ArrowException as error:
            raise InputError(
                f"{name} is not a prepared corpus, or it is damaged ({error}): prepare it again"
            ) from None
        metadata = self._reader.schema.metadata or {}
        self._version = metadata.get(VERSION_KEY)
        if self._version not in (b"1", VERSION):
            raise InputError(f"{name} was not written by a supported version of seqloom: prepare it again")
        shapes = json.loads(metadata.get(SHAPES_KEY, '{"source": [], "target": []}'))
        batches = [self._reader.get_batch(n) for n in range(self._reader.num_record_batches)]
        types = dict.fromkeys(shapes, Column) | ({"target": ColumnWithoutEos} if self._version == b"1" else {})
        self._columns = {
            field: types[field](data, [batch.column(field) for batch in batches], tuple(shape))
            for field, shape in shapes.items()
        }
        self.lengths = {field: column.lengths() for field, column in self._columns.items()}
        self.has_examples = bool({EXAMPLE, "source_text"} & {*self._reader.schema.names})

    @classmethod
    def open(cls, path: Path | str) -> "Corpus":
        """Open a corpus file and map it into memory."""
        try:
            data = pa.memory_map(str(path)).read_buffer()
        except OSError as error:
            raise InputError(f"{path} can't be opened: {error}") from None
        return cls(data, str(path))

    def __len__(self) -> int:
        return len(next(iter(self.lengths.values())))

    def row(self, field: str, index: int) -> Array:
        """One example, encoded by the field, as an array (steps, …)."""
        return self._columns[field].row(index)

    def batch(self, indices: npt.NDArray[np.integer[Any]] | Sequence[int]) -> Batch:
        """Collate these examples into padded tensors."""
        rows = np.asarray(indices, dtype=np.int64)
        if not rows.size:
            raise InputError("a batch needs at least one example, but no indices were given")
        if rows.min() < 0 or rows.max() >= len(self):
            invalid = rows.min() if rows.min() < 0 else rows.max()
            raise InputError(f"example {invalid} is out of range: the corpus has examples 0 to {len(self) - 1}")
        return Batch({field: column.gather(rows) for field, column in self._columns.items()})

    def examples(self) -> Iterator[Example]:
        """Iterate over the examples as read, in order."""
        if not self.has_examples:
            raise InputError(
                "this corpus stores encoded examples only; the original text is stored for validation sets"
            )
        for n in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(n)
            if self._version == b"1":
                columns = (batch.column(name).to_pylist() for name in ("source_text", "target_text", "references"))
                yield from (Example(*values) for values in zip(*columns, strict=True))
            else:
                yield from (Example(**json.loads(text)) for text in batch.column(EXAMPLE).to_pylist())


class Column:
    """The values of one field for all examples: a flat view of the file, and the offset of each example in it."""

    def __init__(self, data: pa.Buffer, columns: Sequence[Any], shape: tuple[int, ...]) -> None:
        self._ends = np.cumsum([len(column) for column in columns], dtype=np.int64)
        self._starts = self._ends - np.array([len(column) for column in columns], dtype=np.int64)
        self._shape, self._step_size = shape, int(np.prod(shape, dtype=np.int64))
        self._values = _view(data, columns[0].type.value_type.to_pandas_dtype() if columns else np.uint16)
        self._index = _view(data, np.int32)
        buffers = [column.buffers() for column in columns]  # validity and offsets of the lists, then of the values
        self._value_offsets = _buffer_offsets(data, [parts[3] for parts in buffers], self._values.itemsize)
        self._index_offsets = _buffer_offsets(data, [parts[1] for parts in buffers], self._index.itemsize)

    def lengths(self) -> Lengths:
        """The number of steps of each example."""
        counts = [
            np.diff(self._index[at : at + rows + 1])
            for at, rows in zip(self._index_offsets, self._ends - self._starts, strict=True)
        ]
        return np.concatenate(counts, dtype=np.int32) // self._step_size if counts else np.zeros(0, np.int32)

    def _locate(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The position of each example's first value in the flat view, and the number of its values."""
        batch = np.searchsorted(self._ends, rows, side="right")
        position = self._index_offsets[batch] + rows - self._starts[batch]
        start = self._index[position].astype(np.int64)
        return self._value_offsets[batch] + start, self._index[position + 1] - start

    def row(self, index: int) -> Array:
        """One example as an array (steps, …)."""
        (start,), (count,) = self._locate(np.array([index], dtype=np.int64))
        return self._values[start : start + count].reshape(-1, *self._shape)

    def gather(self, rows: npt.NDArray[np.int64]) -> Padded:
        """Gather these examples and pad them."""
        values, mask = gather(self._values, *self._locate(rows))
        return Padded(values.reshape(len(rows), -1, *self._shape), mask[:, :: self._step_size])


class ColumnWithoutEos(Column):
    """The targets of a version 1 corpus, which stores token ids without EOS: EOS is appended when they are read."""

    def lengths(self) -> Lengths:
        return super().lengths() + np.int32(1)

    def row(self, index: int) -> Array:
        return np.append(super().row(index), EOS)

    def gather(self, rows: npt.NDArray[np.int64]) -> Padded:
        ids, mask = super().gather(rows)
        mask_with_eos = pad(mask, (1, 0), value=True)
        return Padded(pad(ids, (0, 1)).masked_fill(mask_with_eos & ~pad(mask, (0, 1)), EOS), mask_with_eos)


def _view(data: pa.Buffer, dtype: Any) -> Array:
    """View the whole file as an array of one type, without trailing bytes that don't fill a value."""
    size = np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype=dtype, count=data.size // size)


def _buffer_offsets(data: pa.Buffer, buffers: Sequence[pa.Buffer | None], itemsize: int) -> npt.NDArray[np.int64]:
    """The offset of each buffer in the file, in values. Arrow aligns all buffers to 8 bytes."""
    offsets = [0 if buffer is None else buffer.address - data.address for buffer in buffers]
    return np.array(offsets, dtype=np.int64) // itemsize


class CorpusWriter:
    """Writes a corpus in record batches. The file is complete once the ``with`` block exits without an error.

    path: file to write.
    columns: data type and step shape of each field.
    examples: whether to store the examples as read, too.
    """

    def __init__(
        self, path: Path, columns: Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]], *, examples: bool = False
    ) -> None:
        fields = [
            pa.field(
                name,
                pa.list_(pa.field("item", pa.from_numpy_dtype(np.dtype(dtype)), nullable=False)),
                nullable=False,
            )
            for name, (dtype, _) in columns.items()
        ]
        if examples:
            fields.append(pa.field(EXAMPLE, pa.string()))
        shapes = json.dumps({name: shape for name, (_, shape) in columns.items()})
        self._schema = pa.schema(fields, metadata={VERSION_KEY: VERSION, SHAPES_KEY: shapes})
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, encoded: Mapping[str, Sequence[Array]], *, examples: Sequence[Example] | None = None) -> None:
        """Write examples encoded by each field, and the examples as read if the file stores them."""
        arrays = []
        for field in self._schema:
            if field.name == EXAMPLE:
                arrays.append(pa.array([json.dumps(e, ensure_ascii=False) for e in examples or ()], field.type))
                continue
            rows = [np.asarray(row).reshape(-1) for row in encoded[field.name]]
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
            dtype = field.type.value_type.to_pandas_dtype()
            values = np.concatenate(rows).astype(dtype) if rows else np.zeros(0, dtype)
            arrays.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), type=field.type))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._pending.append(batch)
        self._rows += len(batch)
        if self._rows >= ROWS_PER_BATCH:
            self._flush()

    def _flush(self) -> None:
        """Write the pending rows as one large record batch: each batch adds a little time to opening the file."""
        if self._rows:
            table = pa.Table.from_batches(self._pending, schema=self._schema).combine_chunks()
            self._writer.write_table(table)
        self._pending, self._rows = [], 0

    def __enter__(self) -> "CorpusWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        self._sink.close()

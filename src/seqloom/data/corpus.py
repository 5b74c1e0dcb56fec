"""The compiled corpus: an Arrow file with a column per field that is mapped into memory, never loaded.

A row of the file is an example. In a field's column it has the numbers of the array (steps, …) that the field encoded
it to, and ``example`` is the example as read, in JSON, where it is kept. Rows stand in record batches, so a writer
holds only one. Each batch's numbers are one row with offsets into it, and all of them lie in the one mapped file:
seen from numpy it is *one* array, and any examples are gathered from it at once.
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

from seqloom.batch import END, Batch, Padded
from seqloom.data.examples import Example
from seqloom.data.pad import Array, gather
from seqloom.errors import InputError

ROWS = 1 << 16
VERSION = b"2"
KEY = b"seqloom.corpus"
SHAPES = b"seqloom.shapes"
EXAMPLE = "example"

Lengths = npt.NDArray[np.int32]


class Corpus:
    """Encoded examples, as ``CorpusWriter`` wrote them.

    lengths: how many steps each example has, by field.
    has_examples: whether the examples as read are kept too.
    """

    def __init__(self, data: pa.Buffer, name: str) -> None:
        try:
            self._reader = pa.ipc.open_file(pa.BufferReader(data))
        except pa.ArrowException as error:
            raise InputError(f"{name} is no compiled corpus, or is damaged ({error}): prepare it again") from None
        metadata = self._reader.schema.metadata or {}
        self._version = metadata.get(KEY)
        if self._version not in (b"1", VERSION):
            raise InputError(f"{name} is no compiled corpus of this version of seqloom: prepare it again")
        shapes = json.loads(metadata.get(SHAPES, '{"source": [], "target": []}'))
        batches = [self._reader.get_batch(n) for n in range(self._reader.num_record_batches)]
        kinds = dict.fromkeys(shapes, Column) | ({"target": Unended} if self._version == b"1" else {})
        self._columns = {
            field: kinds[field](data, [batch.column(field) for batch in batches], tuple(shape))
            for field, shape in shapes.items()
        }
        self.lengths = {field: column.lengths() for field, column in self._columns.items()}
        self.has_examples = bool({EXAMPLE, "source_text"} & {*self._reader.schema.names})

    @classmethod
    def open(cls, path: Path | str) -> "Corpus":
        """The corpus in a file, mapped into memory."""
        try:
            data = pa.memory_map(str(path)).read_buffer()
        except OSError as error:
            raise InputError(f"{path} can't be opened: {error}") from None
        return cls(data, str(path))

    def __len__(self) -> int:
        return len(next(iter(self.lengths.values())))

    def row(self, field: str, index: int) -> Array:
        """One example as its field encoded it."""
        return self._columns[field].row(index)

    def batch(self, indices: npt.NDArray[np.integer[Any]] | Sequence[int]) -> Batch:
        """These examples as padded tensors."""
        rows = np.asarray(indices, dtype=np.int64)
        if not rows.size:
            raise InputError("a batch of no examples: give at least one index")
        if rows.min() < 0 or rows.max() >= len(self):
            raise InputError(f"examples are numbered from 0 to {len(self) - 1}, and {rows.max()} is asked for")
        return Batch({field: column.gather(rows) for field, column in self._columns.items()})

    def examples(self) -> Iterator[Example]:
        """The examples as read, in order."""
        if not self.has_examples:
            raise InputError("this corpus keeps encoded examples only; texts are kept of a dev set")
        for n in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(n)
            if self._version == b"1":
                columns = (batch.column(name).to_pylist() for name in ("source_text", "target_text", "references"))
                yield from (Example(*values) for values in zip(*columns, strict=True))
            else:
                yield from (Example(**json.loads(text)) for text in batch.column(EXAMPLE).to_pylist())


class Column:
    """A field of all examples: the file as one row of numbers, and where in it each example stands."""

    def __init__(self, data: pa.Buffer, columns: Sequence[Any], shape: tuple[int, ...]) -> None:
        self._ends = np.cumsum([len(column) for column in columns], dtype=np.int64)
        self._begins = self._ends - np.array([len(column) for column in columns], dtype=np.int64)
        self._shape, self._width = shape, int(np.prod(shape, dtype=np.int64))
        self._values = _view(data, columns[0].type.value_type.to_pandas_dtype() if columns else np.uint16)
        self._offsets = _view(data, np.int32)
        buffers = [column.buffers() for column in columns]  # validity and offsets of the lists, then of the values
        self._values_at = _places(data, [parts[3] for parts in buffers], self._values.itemsize)
        self._offsets_at = _places(data, [parts[1] for parts in buffers], self._offsets.itemsize)

    def lengths(self) -> Lengths:
        """The number of steps of every example."""
        counts = [
            np.diff(self._offsets[at : at + rows + 1])
            for at, rows in zip(self._offsets_at, self._ends - self._begins, strict=True)
        ]
        return np.concatenate(counts, dtype=np.int32) // self._width if counts else np.zeros(0, np.int32)

    def find(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where in the file the numbers of these examples begin, and how many they are."""
        batch = np.searchsorted(self._ends, rows, side="right")
        offset = self._offsets_at[batch] + rows - self._begins[batch]
        begin = self._offsets[offset].astype(np.int64)
        return self._values_at[batch] + begin, self._offsets[offset + 1] - begin

    def row(self, index: int) -> Array:
        """One example."""
        (begin,), (count,) = self.find(np.array([index], dtype=np.int64))
        return self._values[begin : begin + count].reshape(-1, *self._shape)

    def gather(self, rows: npt.NDArray[np.int64]) -> Padded:
        """These examples, padded."""
        values, mask = gather(self._values, *self.find(rows))
        return Padded(values.reshape(len(rows), -1, *self._shape), mask[:, :: self._width])


class Unended(Column):
    """The targets of a corpus of version 1: token ids without END, which later ones have."""

    def lengths(self) -> Lengths:
        return super().lengths() + np.int32(1)

    def row(self, index: int) -> Array:
        return np.append(super().row(index), END)

    def gather(self, rows: npt.NDArray[np.int64]) -> Padded:
        ids, mask = super().gather(rows)
        real = pad(mask, (1, 0), value=True)
        return Padded(pad(ids, (0, 1)).masked_fill(real & ~pad(mask, (0, 1)), END), real)


def _view(data: pa.Buffer, dtype: Any) -> Array:
    """All of the file as numbers of one type; a last byte that fills no number is left out."""
    size = np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype=dtype, count=data.size // size)


def _places(data: pa.Buffer, buffers: Sequence[pa.Buffer | None], itemsize: int) -> npt.NDArray[np.int64]:
    """Where in the file each buffer begins, counted in numbers: Arrow aligns all of them to 8 bytes."""
    begins = [0 if buffer is None else buffer.address - data.address for buffer in buffers]
    return np.array(begins, dtype=np.int64) // itemsize


class CorpusWriter:
    """Writes a corpus in record batches; complete when its ``with`` block ends well.

    path: of the file.
    columns: the type and the shape of a step of every field.
    examples: whether the examples as read are kept too.
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
        self._schema = pa.schema(fields, metadata={KEY: VERSION, SHAPES: shapes})
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, encoded: Mapping[str, Sequence[Array]], *, examples: Sequence[Example] | None = None) -> None:
        """Write encoded examples by field, and the examples as read if those are kept."""
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
        self._waiting.append(batch)
        self._rows += len(batch)
        if self._rows >= ROWS:
            self._flush()

    def _flush(self) -> None:
        """Few large batches rather than many small ones: every batch costs a little when the file is opened."""
        if self._rows:
            table = pa.Table.from_batches(self._waiting, schema=self._schema).combine_chunks()
            self._writer.write_table(table)
        self._waiting, self._rows = [], 0

    def __enter__(self) -> "CorpusWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        self._sink.close()

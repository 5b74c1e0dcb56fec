"""The compiled corpus: token ids in an Arrow file that is mapped into memory, never loaded.

A row of the file is a pair: the lists ``source`` and ``target`` of ids, without END, and, where they are kept, the
texts ``source_text``, ``target_text`` and ``references``. Rows stand in record batches, so a writer holds only one.
Each batch's ids are one row of numbers with offsets into it, and all of them lie in the one mapped file: seen from
numpy it is *one* array, and the ids of any examples are gathered from it at once, wherever they stand.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import torch

from seqloom.batch import END, Batch, Padded
from seqloom.data.examples import Example
from seqloom.errors import InputError

ROWS = 1 << 16
VERSION = b"1"
KEY = b"seqloom.corpus"

Ids = npt.NDArray[np.integer[Any]]
Lengths = npt.NDArray[np.int32]


class Corpus:
    """Pairs of token ids, as ``CorpusWriter`` wrote them.

    source_lengths: how many tokens each source has.
    target_lengths: how many steps each target has: its tokens and END.
    has_texts: whether the texts are kept too.
    """

    def __init__(self, data: pa.Buffer, name: str) -> None:
        try:
            reader = pa.ipc.open_file(pa.BufferReader(data))
        except pa.ArrowException as error:
            raise InputError(f"{name} is no compiled corpus, or is damaged ({error}): prepare it again") from None
        if (reader.schema.metadata or {}).get(KEY) != VERSION:
            raise InputError(f"{name} is no compiled corpus of this version of seqloom: prepare it again")
        self._reader = reader
        batches = [reader.get_batch(n) for n in range(reader.num_record_batches)]
        self._source = _Side(data, [batch.column("source") for batch in batches])
        self._target = _Side(data, [batch.column("target") for batch in batches])
        self.source_lengths = self._source.lengths()
        self.target_lengths = self._target.lengths() + np.int32(1)
        self.has_texts = "source_text" in reader.schema.names

    @classmethod
    def open(cls, path: Path | str) -> "Corpus":
        """The corpus in a file, mapped into memory."""
        try:
            data = pa.memory_map(str(path)).read_buffer()
        except OSError as error:
            raise InputError(f"{path} can't be opened: {error}") from None
        return cls(data, str(path))

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> Ids:
        """The ids of one source."""
        return self._source.row(index)

    def target(self, index: int) -> Ids:
        """The ids of one target, without END."""
        return self._target.row(index)

    def batch(self, indices: npt.NDArray[np.integer[Any]] | Sequence[int]) -> Batch:
        """These examples as padded tensors, END behind every target."""
        rows = np.asarray(indices, dtype=np.int64)
        if not rows.size:
            raise InputError("a batch of no examples: give at least one index")
        if rows.min() < 0 or rows.max() >= len(self):
            raise InputError(f"examples are numbered from 0 to {len(self) - 1}, and {rows.max()} is asked for")
        return Batch({"source": self._source.padded(rows), "target": self._target.padded(rows, end=True)})

    def examples(self) -> Iterator[Example]:
        """The texts, in order."""
        if not self.has_texts:
            raise InputError("this corpus keeps token ids only; texts are kept of a dev set")
        for n in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(n)
            columns = (batch.column(name).to_pylist() for name in ("source_text", "target_text", "references"))
            for source, target, references in zip(*columns, strict=True):
                yield Example(source, target, tuple(references))


class _Side:
    """The ids of one side: all of the file as one row of numbers, and where in it each example stands."""

    def __init__(self, data: pa.Buffer, columns: Sequence[Any]) -> None:
        self._ends = np.cumsum([len(column) for column in columns], dtype=np.int64)
        self._begins = self._ends - np.array([len(column) for column in columns], dtype=np.int64)
        width = columns[0].type.value_type.to_pandas_dtype() if columns else np.uint16
        self._ids = _view(data, width)
        self._offsets = _view(data, np.int32)
        buffers = [column.buffers() for column in columns]  # validity and offsets of the lists, then of the ids
        self._ids_at = _places(data, [parts[3] for parts in buffers], self._ids.itemsize)
        self._offsets_at = _places(data, [parts[1] for parts in buffers], self._offsets.itemsize)

    def lengths(self) -> Lengths:
        counts = [
            np.diff(self._offsets[at : at + rows + 1])
            for at, rows in zip(self._offsets_at, self._ends - self._begins, strict=True)
        ]
        return np.concatenate(counts, dtype=np.int32) if counts else np.zeros(0, np.int32)

    def find(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where in the file the ids of these examples begin, and how many they are."""
        batch = np.searchsorted(self._ends, rows, side="right")
        offset = self._offsets_at[batch] + rows - self._begins[batch]
        begin = self._offsets[offset].astype(np.int64)
        return self._ids_at[batch] + begin, self._offsets[offset + 1] - begin

    def row(self, index: int) -> Ids:
        (begin,), (length,) = self.find(np.array([index], dtype=np.int64))
        return self._ids[begin : begin + length]

    def padded(self, rows: npt.NDArray[np.int64], *, end: bool = False) -> Padded:
        """Ids and mask of these examples; with ``end``, END behind each."""
        begin, length = self.find(rows)
        steps = np.arange(length.max() + end)
        real = steps < length[:, None]
        padded = np.zeros(real.shape, np.int64)  # PAD is 0
        padded[real] = self._ids[(begin[:, None] + steps)[real]]
        if end:
            padded[np.arange(len(rows)), length] = END
            real = steps <= length[:, None]
        return Padded(torch.from_numpy(padded), torch.from_numpy(real))


def _view(data: pa.Buffer, dtype: Any) -> Ids:
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
    vocabulary: how many ids there are, which decides how many bytes one takes.
    texts: whether texts are kept too.
    """

    def __init__(self, path: Path, *, vocabulary: int, texts: bool = False) -> None:
        ids = pa.list_(pa.field("item", pa.uint16() if vocabulary <= 1 << 16 else pa.int32(), nullable=False))
        fields = [pa.field("source", ids, nullable=False), pa.field("target", ids, nullable=False)]
        if texts:
            fields += [pa.field("source_text", pa.string()), pa.field("target_text", pa.string())]
            fields += [pa.field("references", pa.list_(pa.string()))]
        self._schema = pa.schema(fields, metadata={KEY: VERSION})
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        examples: Sequence[Example] | None = None,
    ) -> None:
        """Write pairs of ids, and their texts if those are kept."""
        columns: list[Any] = [list(sources), list(targets)]
        if examples is not None:
            columns += [[e.source for e in examples], [e.target for e in examples], [e.references for e in examples]]
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, self._schema, strict=True)]
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

"""Apache Parquet."""

from collections.abc import Iterator, Sequence
from typing import Any

from seqloom.data.examples import Row
from seqloom.data.readers.base import Reader, apply, at
from seqloom.errors import InputError
from seqloom.registry import register

ROWS_AT_ONCE = 4096


@register("reader", "parquet")
class Parquet(Reader):
    """Columns of a Parquet file; a target may be a list of texts, as in JSONL."""

    name = "parquet"
    suffixes = (".parquet", ".pq")
    streams = False  # its index is at the end

    def rows(self) -> Iterator[Row]:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        try:
            with pq.ParquetFile(self.path) as file:
                names = file.schema_arrow.names
                keys = self.names(names, self.path)
                read = sorted({n for key in keys.values() for n in (key if isinstance(key, list) else [key])})
                number = 0
                for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=read):
                    try:
                        columns = [batch.column(name).to_pylist() for name in read]
                    except UnicodeDecodeError:
                        where = number + 1 + _first_not_utf8(batch, read)
                        raise InputError(f"{self.path}, row {where}: a text that is not UTF-8") from None
                    for values in zip(*columns, strict=True):
                        number += 1
                        record = dict(zip(read, values, strict=True))
                        yield Row(at(self.path, "row", number), apply(keys, record.__getitem__))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.path}: can't be read as Parquet: {error}") from None


def _first_not_utf8(batch: Any, columns: Sequence[str]) -> int:
    for row in range(len(batch)):
        try:
            for column in columns:
                batch.column(column)[row].as_py()
        except UnicodeDecodeError:
            return row
    raise AssertionError("every text is UTF-8")

"""Apache Parquet."""

from collections.abc import Iterator, Sequence
from typing import Any

from seqloom.data.examples import Row
from seqloom.data.readers.base import Reader, line_location, map_columns
from seqloom.errors import InputError
from seqloom.registry import register

BATCH_SIZE = 4096


@register("reader", "parquet")
class Parquet(Reader):
    """Apache Parquet file; as in JSON Lines, a target may be a list of references."""

    name = "parquet"
    suffixes = (".parquet", ".pq")
    streams = False  # the index is at the end of the file

    def rows(self) -> Iterator[Row]:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        try:
            with pq.ParquetFile(self.path) as file:
                names = file.schema_arrow.names
                keys = self.resolve_columns(names, self.path)
                read = sorted({n for key in keys.values() for n in (key if isinstance(key, list) else [key])})
                number = 0
                for batch in file.iter_batches(batch_size=BATCH_SIZE, columns=read):
                    try:
                        columns = [batch.column(name).to_pylist() for name in read]
                    except UnicodeDecodeError:
                        row = number + 1 + _first_not_utf8(batch, read)
                        raise InputError(f"{self.path}, row {row}: not UTF-8") from None
                    for values in zip(*columns, strict=True):
                        number += 1
                        record = dict(zip(read, values, strict=True))
                        yield Row(line_location(self.path, "row", number), map_columns(keys, record.__getitem__))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.path}: can't be read as Parquet: {error}") from None


def _first_not_utf8(batch: Any, columns: Sequence[str]) -> int:
    """Index of the first row with a text that is not UTF-8."""
    for row in range(len(batch)):
        try:
            for column in columns:
                batch.column(column)[row].as_py()
        except UnicodeDecodeError:
            return row
    raise AssertionError("all texts are UTF-8")

"""TSV: tab-separated values."""

from collections.abc import Iterator, Sequence

from seqloom.data.examples import Row
from seqloom.data.lines import display_name, lines
from seqloom.data.readers.base import Reader, line_location, map_columns
from seqloom.data.readers.columns import Column, Columns, column_index
from seqloom.errors import InputError
from seqloom.registry import register

MAX_SHOWN = 30
"""Maximum number of characters of a value in an error message."""


@register("reader", "tsv")
class Tsv(Reader):
    """Tab-separated values (TSV), without quoting: quotation marks are ordinary text.

    Without ``columns``, a file with two columns holds source and target. For a file with more columns, ``columns`` or
    a header with ``source`` and ``target`` is required.

    header: whether the first line holds the column names.
    """

    name = "tsv"
    suffixes = (".tsv", ".tab")

    def __init__(self, paths: tuple[str, ...], columns: Columns | None, *, header: bool = False) -> None:
        super().__init__(paths, columns)
        self.header = header

    def rows(self) -> Iterator[Row]:
        stream = lines(self.path)
        names = next(stream, (0, ""))[1].split("\t") if self.header else None
        numbers = None
        for number, line in stream:
            locate = line_location(self.path, "line", number)
            values = line.split("\t")
            if numbers is None and (self.header or line.strip()):
                columns = self.columns or self._default_columns(names or values, number)
                numbers = map_columns(columns, lambda column: self._column_number(column, names))
                needed = max(n for one in numbers.values() for n in (one if isinstance(one, list) else [one])) + 1
            if numbers is None or (not line.strip() and len(values) < needed):
                yield Row(locate, {"source": None, "target": None})
            elif len(values) < needed:
                raise InputError(
                    f"{locate('')}: column {needed - 1} is missing: number of tab-separated columns: "
                    f"{len(values)} (they are numbered from 0)"
                )
            else:
                yield Row(locate, map_columns(numbers, values.__getitem__))

    def _default_columns(self, values: Sequence[str], number: int) -> Columns:
        """Source and target columns if they are not set."""
        if self.header and {"source", "target"} <= {*values}:
            return {"source": "source", "target": "target"}
        if len(values) <= 2:
            return {"source": 0, "target": 1}
        where = f"{display_name(self.path)}, {'the header' if self.header else f'line {number}'}"
        shown = ", ".join(f"{n}: {value[:MAX_SHOWN]!r}" for n, value in enumerate(values))
        raise InputError(
            f"{where}: there are {len(values)} columns, so choose the columns of source and target, "
            f"for example --columns 0,{len(values) - 1}. The columns are {shown}"
        )

    def _column_number(self, column: Column, names: Sequence[str] | None) -> int:
        if names is not None:
            return column_index(column, names, display_name(self.path))
        if str(column).isdecimal():
            return int(column)
        raise InputError(
            f"{display_name(self.path)}: column {column!r} is not a number: columns can be given by name only if "
            "the file has a header (--header)"
        )

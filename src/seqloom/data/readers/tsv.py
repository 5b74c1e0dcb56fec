"""Tab-separated columns."""

from collections.abc import Iterator, Sequence

from seqloom.data.examples import Row
from seqloom.data.lines import called, lines
from seqloom.data.readers.base import Reader, apply, at
from seqloom.data.readers.columns import Column, Columns, place_of
from seqloom.errors import InputError
from seqloom.registry import register

SHOWN = 30
"""So many characters of a value are shown in a message."""


@register("reader", "tsv")
class Tsv(Reader):
    """Columns separated by tabs; quotes are text like any other.

    Without ``columns``, a file with two columns has the source and the target; one with more must say which they are.

    header: whether the first line names the columns.
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
            place = at(self.path, "line", number)
            values = line.split("\t")
            if numbers is None and (self.header or line.strip()):
                columns = self.columns or self._two(names or values, number)
                numbers = apply(columns, lambda column: self._number(column, names))
                needed = max(n for one in numbers.values() for n in (one if isinstance(one, list) else [one])) + 1
            if numbers is None or (not line.strip() and len(values) < needed):
                yield Row(place, {"source": None, "target": None})
            elif len(values) < needed:
                raise InputError(
                    f"{place('')}: it has {len(values)} columns, separated by tabs, and column {needed - 1} is "
                    f"asked for (they count from 0)"
                )
            else:
                yield Row(place, apply(numbers, values.__getitem__))

    def _two(self, values: Sequence[str], number: int) -> Columns:
        """Source and target where nothing says which columns they are."""
        if self.header and {"source", "target"} <= {*values}:
            return {"source": "source", "target": "target"}
        if len(values) <= 2:
            return {"source": 0, "target": 1}
        where = f"{called(self.path)}, {'the header' if self.header else f'line {number}'}"
        shown = ", ".join(f"{n}: {value[:SHOWN]!r}" for n, value in enumerate(values))
        raise InputError(
            f"{where}: it has {len(values)} columns, and a pair has two. Say which are the source and the target, "
            f"for example --columns 0,{len(values) - 1}. They are {shown}"
        )

    def _number(self, column: Column, names: Sequence[str] | None) -> int:
        if names is not None:
            return place_of(column, names, called(self.path))
        if str(column).isdecimal():
            return int(column)
        raise InputError(
            f"{called(self.path)}: column {column!r} is no number; columns have names only if there is a header "
            f"(--header)"
        )

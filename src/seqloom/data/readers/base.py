"""The base class of file readers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from seqloom.data.examples import Row
from seqloom.data.lines import STDIN, display_name
from seqloom.data.readers.columns import Columns, column_index
from seqloom.errors import ConfigError

BY_NAME: Columns = {"source": "source", "target": "target"}
T = TypeVar("T")


class Reader(ABC):
    """A file format: reads each example of a file as a mapping from field to value, with its location.

    A reader is registered under the name of the format. Its class attribute ``suffixes`` lists the file suffixes of
    the format, and ``streams`` tells whether it can read standard input. Keyword arguments are options of the format.

    paths: file to read; several files for formats that spread an example over several files.
    columns: column of each field; None means ``BY_NAME``, or the default of the format.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    streams: ClassVar[bool] = True

    def __init__(self, paths: tuple[str, ...], columns: Columns | None) -> None:
        self.paths = paths
        self.columns = columns
        self.check()

    def check(self) -> None:
        """Raise an error if the format can't be read from these paths."""
        if len(self.paths) != 1:
            raise ConfigError(
                f"{', '.join(self.paths)}: format {self.name} takes one file, but {len(self.paths)} were given; "
                "line-aligned text is --format lines"
            )
        if not self.streams and STDIN in self.paths:
            raise ConfigError(f"format {self.name} can't be read from standard input: give a file")

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Iterate over all examples, before validation; for a blank line, the values are None."""

    @property
    def path(self) -> str:
        """The path of a single-file format."""
        return self.paths[0]

    def resolve_columns(self, names: Sequence[str], where: str) -> dict[str, str | list[str]]:
        """The column names of each field, given the names of all columns in the file."""
        return map_columns(self.columns or BY_NAME, lambda column: names[column_index(column, names, where)])


def map_columns(columns: Mapping[str, Any], function: Callable[[Any], T]) -> dict[str, T | list[T]]:
    """Apply a function to the column, or to each of the columns, of every field."""
    return {
        field: [function(one) for one in column] if isinstance(column, tuple | list) else function(column)
        for field, column in columns.items()
    }


def line_location(path: str, unit: str, number: int) -> Callable[[str], str]:
    """The location of a row that is one line (or other unit) of a file, the same for all columns."""
    return lambda _: f"{display_name(path)}, {unit} {number}"

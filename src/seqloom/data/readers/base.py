"""What every file format shares."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from seqloom.data.examples import Row
from seqloom.data.lines import STDIN, called
from seqloom.data.readers.columns import Columns, place_of
from seqloom.errors import OptionError

BY_NAME: Columns = {"source": "source", "target": "target"}
T = TypeVar("T")


class Reader(ABC):
    """A file format: every example of a file as a mapping from field to value, and where it stands.

    A reader is registered under the format's name. Its class says by which ``suffixes`` its files are known, and
    whether it can read standard input (``streams``); options of the format are keyword arguments.

    paths: of the files: one, but for a format whose examples are spread over several.
    columns: of every field; None: ``BY_NAME``, or what suits the format.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    streams: ClassVar[bool] = True

    def __init__(self, paths: tuple[str, ...], columns: Columns | None) -> None:
        self.paths = paths
        self.columns = columns
        self.check()

    def check(self) -> None:
        """Refuse paths that the format can't be read from."""
        if len(self.paths) != 1:
            raise OptionError(
                f"{', '.join(self.paths)}: one file of {self.name.upper()} at a time; "
                f"line-aligned text has format lines"
            )
        if not self.streams and STDIN in self.paths:
            raise OptionError(f"{self.name} can't be read from standard input: give the file")

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Every example, unchecked; a blank line is one whose values are None."""

    @property
    def path(self) -> str:
        """Of a single file."""
        return self.paths[0]

    def names(self, there: Sequence[str], where: str) -> dict[str, str | list[str]]:
        """The name of each field's column, or of each of its columns, among all that are ``there``."""
        return apply(self.columns or BY_NAME, lambda column: there[place_of(column, there, where)])


def apply(columns: Mapping[str, Any], what: Callable[[Any], T]) -> dict[str, T | list[T]]:
    """Something of each field's column, or of each of its columns."""
    return {
        field: [what(one) for one in column] if isinstance(column, tuple | list) else what(column)
        for field, column in columns.items()
    }


def at(path: str, unit: str, number: int) -> Callable[[str], str]:
    """Where all columns of a row stand that is one line of a file."""
    return lambda _: f"{called(path)}, {unit} {number}"

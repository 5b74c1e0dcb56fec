"""Examples in files of any registered format.

Only ``\\n`` and ``\\r\\n`` end a line. Other Unicode line breaks (U+2028, form feed, …) are part of the text:
splitting at them would misalign the files of a pair.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from seqloom.data.examples import SIDES, Example, Examples, OnEmpty, Pairs, Skipped, validate_rows
from seqloom.data.lines import STDIN, check_file, plain_name
from seqloom.data.readers.base import Reader
from seqloom.data.readers.columns import Columns, parse_columns
from seqloom.errors import ConfigError
from seqloom.registry import build, get_class, options, parts

STDIN_FORMAT = "tsv"
ALIGNED_FORMAT = "lines"


@dataclass(frozen=True)
class Files:
    """Examples in files.

    paths: one file, or line-aligned files: source, target, and optional references. ``-`` is standard input.
    format: name of the reader. The default depends on the file suffix; without a known suffix, two or more files are
        line-aligned, and standard input is TSV.
    columns: column of each field, by name or by number, counted from 0. The default is the columns named ``source``
        and ``target``, or, for a TSV file without a header, its two columns.
    header: whether the first line of a TSV file holds the column names.
    """

    paths: tuple[str, ...]
    format: str | None = None
    columns: Columns | None = None
    header: bool = False

    def __post_init__(self) -> None:
        self.reader()

    @classmethod
    def of(
        cls,
        given: str | Sequence[str],
        *,
        format: str | None = None,  # noqa: A002
        columns: Any = None,
        header: bool = False,
        fields: Iterable[str] = SIDES,
    ) -> "Files":
        """Files from user input. Braces as in ``train.{de,en}`` are expanded here, since not all shells do it.

        columns: ``[source, target, reference …]``, or a mapping from field to column.
        fields: fields to read. If there are others than source and target, the default columns are the field names.
        """
        paths = [given] if isinstance(given, str) else given
        expanded = tuple(path for pattern in paths for path in expand(str(pattern)))
        if not expanded:
            raise ConfigError("no file is given")
        names = [*fields]
        by_name = None if {*names} == {*SIDES} else {name: name for name in names}
        return cls(expanded, format, parse_columns(by_name if columns is None else columns), header)

    @property
    def format_name(self) -> str:
        """The name of the format, detected from the file names unless it is given."""
        if self.format is not None:
            return self.format
        suffixes = {PurePath(plain_name(path)).suffix.lower() for path in self.paths}
        readers: dict[str, type[Reader]] = parts("reader")
        matching = [name for name, reader in readers.items() if suffixes <= {*reader.suffixes}]
        if matching or len(self.paths) > 1:
            return matching[0] if matching else ALIGNED_FORMAT
        if self.paths[0] == STDIN:
            return STDIN_FORMAT
        raise ConfigError(
            f"{self.paths[0]}: the format can't be detected from the file name: set --format, e.g. --format tsv for "
            f"tab-separated pairs (formats: {', '.join(readers)}), or give two line-aligned files ('train.{{de,en}}')"
        )

    @property
    def once(self) -> bool:
        """Whether they can be read only once, as standard input and pipes."""
        return any(path == STDIN or not Path(path).is_file() for path in self.paths)

    def reader(self) -> Reader:
        """Make the reader of the format."""
        name = self.format_name
        if self.header and "header" not in options(get_class("reader", name)):
            raise ConfigError(f"{', '.join(self.paths)}: format {name} has no header: remove --header")
        header = {"header": True} if self.header else {}
        reader: Reader = build("reader", {"name": name, **header}, self.paths, self.columns)
        return reader

    def check(self) -> None:
        """Raise an error for missing or unreadable files, before any work is done."""
        for path in self.paths:
            check_file(path)

    def read(self, *, on_empty: OnEmpty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """Iterate over all examples in order."""
        self.check()
        return validate_rows(self.reader().rows(), on_empty=on_empty, skipped=skipped)


def examples_of(data: Any, *, name: str = "the data", fields: Iterable[str] = SIDES) -> Examples:
    """Convert data to ``Examples``: paths of files, pairs in memory, or ``Examples``, which are returned unchanged.

    name: name of pairs in error messages.
    fields: fields to read from files.
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, str | Path):
        return Files.of(str(data), fields=fields)
    if isinstance(data, Sequence) and data and all(isinstance(path, str | Path) for path in data):
        return Files.of([str(path) for path in data], fields=fields)
    if not isinstance(data, Iterable):
        raise ConfigError(f"{data!r} is not valid data: give files, or pairs of source and target")
    return Pairs(data, name=name)


def expand(pattern: str) -> list[str]:
    """Expand braces: ``a.{b,c}`` gives ``a.b`` and ``a.c``; several braces give all combinations."""
    brace = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if brace is None:
        return [pattern]
    before, after = pattern[: brace.start()], pattern[brace.end() :]
    paths = [path for choice in brace[1].split(",") for path in expand(before + choice + after)]
    return list(
        dict.fromkeys(paths)
    )  # an inner brace is expanded first, so it repeats the other choices of the outer one

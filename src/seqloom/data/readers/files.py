"""Examples in files, of any format that there is a reader for.

Only ``\\n`` and ``\\r\\n`` end a line. All else that Unicode calls a line break (U+2028, form feed, …) is text:
to cut there would shift one file of a pair against the other.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from seqloom.data.examples import SIDES, Empty, Example, Examples, Pairs, Skipped, checked
from seqloom.data.lines import STDIN, check_file, plain_name
from seqloom.data.readers.base import Reader
from seqloom.data.readers.columns import Columns, columns_of
from seqloom.errors import OptionError
from seqloom.registry import build, find, options, parts

STREAMED = "tsv"
"""The format of standard input, which has no name."""
ALIGNED = "lines"


@dataclass(frozen=True)
class Files:
    """Examples in files.

    paths: one file; or line-aligned files: source, target, further references. ``-`` is standard input.
    format: a reader's name; by default from the name; two or more files are line-aligned, standard input is TSV.
    columns: of every field, by name or number from 0. By default those of the names ``source`` and ``target``; those
        of a TSV without a ``header`` have no names, and by default it has two.
    header: whether a TSV's first line names its columns.
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
        """The files that a person names; ``train.{de,en}`` is expanded here, as not every shell does it.

        columns: ``[source, target, further references …]``, or a mapping from field to column.
        fields: what is read; those beside source and target are by default in columns of their names.
        """
        paths = [given] if isinstance(given, str) else given
        expanded = tuple(path for pattern in paths for path in expand(str(pattern)))
        if not expanded:
            raise OptionError("no file is named")
        names = [*fields]
        by_name = None if {*names} == {*SIDES} else {name: name for name in names}
        return cls(expanded, format, columns_of(by_name if columns is None else columns), header)

    @property
    def kind(self) -> str:
        """The format, from the name where it is not given."""
        if self.format is not None:
            return self.format
        endings = {PurePath(plain_name(path)).suffix.lower() for path in self.paths}
        readers: dict[str, type[Reader]] = parts("reader")
        named = [name for name, reader in readers.items() if endings <= {*reader.suffixes}]
        if named or len(self.paths) > 1:
            return named[0] if named else ALIGNED
        if self.paths[0] == STDIN:
            return STREAMED
        raise OptionError(
            f"{self.paths[0]}: its name tells no format. Name it with --format: --format tsv for pairs separated by "
            f"tabs (there are: {', '.join(readers)}); or name two line-aligned files ('train.{{de,en}}')"
        )

    @property
    def once(self) -> bool:
        """Whether they can be read only once, as standard input and pipes can."""
        return any(path == STDIN or not Path(path).is_file() for path in self.paths)

    def reader(self) -> Reader:
        """What reads the format."""
        kind = self.kind
        if self.header and "header" not in options(find("reader", kind)):
            raise OptionError(f"{', '.join(self.paths)}: {kind} has no header to be read by --header: leave it out")
        header = {"header": True} if self.header else {}
        reader: Reader = build("reader", {"name": kind, **header}, self.paths, self.columns)
        return reader

    def check(self) -> None:
        """Refuse files that are not there, before any work is done."""
        for path in self.paths:
            check_file(path)

    def read(self, *, empty: Empty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """The examples, one after the other."""
        self.check()
        return checked(self.reader().rows(), empty=empty, skipped=skipped)


def examples_of(data: Any, *, name: str = "the data", fields: Iterable[str] = SIDES) -> Examples:
    """Whatever holds examples: paths of files, pairs in memory, or what can be read already.

    name: what pairs are called in messages.
    fields: what is read from files.
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, str | Path):
        return Files.of(str(data), fields=fields)
    if isinstance(data, Sequence) and data and all(isinstance(path, str | Path) for path in data):
        return Files.of([str(path) for path in data], fields=fields)
    if not isinstance(data, Iterable):
        raise OptionError(f"{data!r} holds no examples: give files, or pairs of source and target")
    return Pairs(data, name=name)


def expand(pattern: str) -> list[str]:
    """``a.{b,c}`` as ``a.b`` and ``a.c``; several braces give every combination."""
    brace = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if brace is None:
        return [pattern]
    before, after = pattern[: brace.start()], pattern[brace.end() :]
    paths = [path for choice in brace[1].split(",") for path in expand(before + choice + after)]
    return list(dict.fromkeys(paths))  # an inner brace, expanded first, repeats the outer one's other choices

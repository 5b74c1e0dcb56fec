"""Pairs as they stand in files: line-aligned text, TSV, JSONL, Parquet; plain, gzip or zstd; or standard input.

Only ``\\n`` and ``\\r\\n`` end a line. All else that Unicode calls a line break (U+2028, form feed, …) is text:
to cut there would shift one file of a pair against the other.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

from seqloom.data.lines import STDIN, called, check_file, lines, plain_name
from seqloom.errors import InputError, OptionError, unknown

Format = Literal["lines", "tsv", "jsonl", "parquet"]
Empty = Literal["skip", "refuse"]
SUFFIXES: Mapping[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
ROWS_AT_ONCE = 4096
SURROGATE = re.compile(r"[\ud800-\udfff]")


class Example(NamedTuple):
    """One source and its target, as read; ``references`` are further right answers."""

    source: str
    target: str
    references: tuple[str, ...] = ()


class Skipped(Counter[str]):
    """How many pairs were left out, by reason."""


class Row(NamedTuple):
    """One row of a file: where it stands, and the values of its columns."""

    place: Callable[[int], str]
    values: Sequence[Any]


@dataclass(frozen=True)
class Files:
    """Where pairs are.

    paths: one TSV, JSONL or Parquet file; or line-aligned files: source, target, further references. ``-`` is
        standard input.
    format: by default from the name; two or more files are line-aligned, standard input is TSV.
    columns: of the source, the target and further references; by default 0 and 1 in a TSV, else source and target.
        A TSV's are numbers from 0, or names if it has a ``header``. In JSONL and Parquet a target may be a list of
        strings: the first is the target, the others are references. A TSV knows no quotes.
    header: whether a TSV's first line names its columns.
    """

    paths: tuple[str, ...]
    format: Format | None = None
    columns: tuple[str | int, ...] | None = None
    header: bool = False

    def __post_init__(self) -> None:
        shown = ", ".join(self.paths)
        if self.kind == "lines" and len(self.paths) < 2:
            raise OptionError(f"{shown}: line-aligned text is two files, source and target, e.g. 'train.{{de,en}}'")
        if self.kind != "lines" and len(self.paths) != 1:
            raise OptionError(
                f"{shown}: one file of {self.kind.upper()} at a time; line-aligned text has format lines"
            )
        if self.paths.count(STDIN) > 1:
            raise OptionError("standard input (-) can be only one of the files")
        if self.kind == "parquet" and STDIN in self.paths:
            raise OptionError("Parquet can't be read from standard input, as its index is at the end: give the file")
        if self.header and self.kind != "tsv":
            raise OptionError(f"{shown}: only a TSV has a header, and this is {self.kind}")
        if self.columns is not None and self.kind == "lines":
            raise OptionError(f"{shown}: line-aligned text has no columns; a single file has")
        if self.columns is not None and len(self.columns) < 2:
            raise OptionError(f"{shown}: columns are at least two, source and target; given: {self.columns}")

    @classmethod
    def of(
        cls,
        given: str | Sequence[str],
        *,
        format: Format | None = None,  # noqa: A002
        columns: Sequence[str | int] | None = None,
        header: bool = False,
    ) -> "Files":
        """The files that a person names; ``train.{de,en}`` is expanded here, as not every shell does it."""
        paths = [given] if isinstance(given, str) else given
        expanded = tuple(path for pattern in paths for path in expand(str(pattern)))
        if not expanded:
            raise OptionError("no file is named")
        return cls(expanded, format, None if columns is None else tuple(columns), header)

    @property
    def kind(self) -> Format:
        """The format, from the name where it is not given."""
        if self.format is not None:
            return self.format
        by_name = SUFFIXES.get(PurePath(plain_name(self.paths[0])).suffix.lower())
        if len(self.paths) > 1:
            return by_name if by_name and len({PurePath(plain_name(p)).suffix for p in self.paths}) == 1 else "lines"
        if self.paths[0] == STDIN:
            return "tsv"
        if by_name is None:
            raise OptionError(
                f"{self.paths[0]}: its name tells no format: name two line-aligned files ('train.{{de,en}}'), "
                f"or set the format to tsv, jsonl or parquet"
            )
        return by_name

    @property
    def once(self) -> bool:
        """Whether they can be read only once, as standard input and pipes can."""
        return any(path == STDIN or not Path(path).is_file() for path in self.paths)

    def check(self) -> None:
        """Refuse files that are not there, before any work is done."""
        for path in self.paths:
            check_file(path)


def expand(pattern: str) -> list[str]:
    """``a.{b,c}`` as ``a.b`` and ``a.c``; several braces give every combination."""
    brace = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if brace is None:
        return [pattern]
    before, after = pattern[: brace.start()], pattern[brace.end() :]
    paths = [path for choice in brace[1].split(",") for path in expand(before + choice + after)]
    return list(dict.fromkeys(paths))  # an inner brace, expanded first, repeats the outer one's other choices


def read(files: Files, *, empty: Empty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
    """The examples of ``files``, one after the other.

    empty: whether a pair with an empty side is left out or refused.
    skipped: where those left out are counted, under "empty".
    """
    files.check()
    rows = {"lines": _aligned, "tsv": _tsv, "jsonl": _jsonl, "parquet": _parquet}[files.kind](files)
    return _examples(rows, empty, skipped)


def _examples(rows: Iterator[Row], empty: Empty, skipped: Skipped | None) -> Iterator[Example]:
    """Rows as examples: lists taken apart, empty sides skipped or refused."""
    for place, values in rows:
        source = _texts(values[0], place, 0)
        targets = _texts(values[1], place, 1)
        if len(source) > 1:
            raise InputError(f"{place(0)}: the source is a list; only targets can have several right answers")
        side = 0 if not source or not source[0].strip() else 1 if not targets or not targets[0].strip() else None
        if side is None:
            further = (text for n, value in enumerate(values[2:], 2) for text in _texts(value, place, n))
            references = tuple(text for text in (*targets[1:], *further) if text.strip())
            yield Example(source[0], targets[0], references)
        elif empty == "refuse":
            raise InputError(
                f"{place(side)}: the {('source', 'target')[side]} is empty; mend it, or let empty pairs be skipped"
            )
        elif skipped is not None:
            skipped["empty"] += 1


def check_characters(text: str, where: str) -> None:
    """Refuse a text that no UTF-8 can hold."""
    if SURROGATE.search(text):
        raise InputError(f"{where}: {text!r} holds half a character (a lone surrogate); take it out")


def _texts(value: Any, place: Callable[[int], str], column: int) -> list[str]:
    """A value as the texts it holds: one, those of a list, or none."""
    texts = value if isinstance(value, list) else [] if value is None else [value]
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{place(column)}: {text!r} is a {type(text).__name__}, not text; put it in quotes")
        check_characters(text, place(column))
    return texts


def _aligned(files: Files) -> Iterator[Row]:
    """Line n of every file belongs together."""
    paths = files.paths
    counted = [0] * len(paths)
    streams = [_counting(lines(path), counted, n) for n, path in enumerate(paths)]
    for number, texts in enumerate(itertools.zip_longest(*streams), 1):
        if None in texts:
            for stream in streams:
                for _ in stream:
                    pass
            counts = ", ".join(f"{called(path)} has {count:,}" for path, count in zip(paths, counted, strict=True))
            raise InputError(
                f"line-aligned files must have as many lines as each other, but {counts}; "
                f"up to line {number - 1:,} all have one"
            )
        yield Row(lambda n, number=number: f"{called(paths[n])}, line {number}", texts)  # type: ignore[misc]


def _counting(stream: Iterator[tuple[int, str]], counted: list[int], n: int) -> Iterator[str]:
    for number, text in stream:
        counted[n] = number
        yield text


def _tsv(files: Files) -> Iterator[Row]:
    path = files.paths[0]
    stream = lines(path)
    names = next(stream, (0, ""))[1].split("\t") if files.header else None
    columns = [_tsv_column(path, column, names) for column in files.columns or (0, 1)]
    needed = max(columns) + 1
    for number, line in stream:
        fields = line.split("\t")
        place = _place(path, "line", number)
        if len(fields) < needed:
            if not line.strip():
                yield Row(place, [None] * len(columns))
                continue
            raise InputError(
                f"{place(0)}: it has {len(fields)} columns, separated by tabs, and column {needed - 1} is asked for "
                f"(they count from 0)"
            )
        yield Row(place, [fields[column] for column in columns])


def _tsv_column(path: str, column: str | int, names: list[str] | None) -> int:
    """The number of a column that is given by name or number."""
    if names is not None and column in names:
        return names.index(str(column))
    if str(column).isdecimal() and (names is None or int(column) < len(names)):
        return int(column)
    if names is not None:
        raise InputError(f"{called(path)}: {unknown('column', str(column), names)}")
    raise InputError(f"{called(path)}: column {column!r} is no number; columns have names only if there is a header")


def _jsonl(files: Files) -> Iterator[Row]:
    path = files.paths[0]
    columns = [str(column) for column in files.columns or ("source", "target")]
    for number, line in lines(path):
        place = _place(path, "line", number)
        if not line.strip():
            yield Row(place, [None] * len(columns))
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{place(0)}: not JSON: {error}; JSONL has one object a line") from None
        if not isinstance(record, dict):
            raise InputError(f"{place(0)}: not a JSON object with {' and '.join(columns)}")
        for column in columns:
            if column not in record:
                raise InputError(f"{place(0)}: {unknown('column', column, record)}")
        yield Row(place, [record[column] for column in columns])


def _parquet(files: Files) -> Iterator[Row]:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    path = files.paths[0]
    columns = [str(column) for column in files.columns or ("source", "target")]
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            for column in columns:
                if column not in there:
                    raise InputError(f"{path}: {unknown('column', column, there)}")
            number = 0
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
                try:
                    lists = [batch.column(column).to_pylist() for column in columns]
                except UnicodeDecodeError:
                    where = number + 1 + _first_not_utf8(batch, columns)
                    raise InputError(f"{path}, row {where}: a text that is not UTF-8") from None
                for values in zip(*lists, strict=True):
                    number += 1
                    yield Row(_place(path, "row", number), values)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: can't be read as Parquet: {error}") from None


def _first_not_utf8(batch: Any, columns: Sequence[str]) -> int:
    for row in range(len(batch)):
        try:
            for column in columns:
                batch.column(column)[row].as_py()
        except UnicodeDecodeError:
            return row
    raise AssertionError("every text is UTF-8")


def _place(path: str, unit: str, number: int) -> Callable[[int], str]:
    return lambda _: f"{called(path)}, {unit} {number}"

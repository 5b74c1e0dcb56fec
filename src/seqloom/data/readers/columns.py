"""The columns of a file that hold each field, by name or number."""

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.errors import ConfigError, InputError, unknown

Column = str | int
Columns = Mapping[str, Column | tuple[Column, ...]]
"""The column of each field; several columns form a list of values."""
EXAMPLES = "--columns 0,2 or --columns '{source: lemma, target: form}'"


def parse_columns(given: Any) -> Columns | None:
    """Parse the option ``columns``.

    It is a list ``[0, 2]`` of source, target and optional references, or a mapping
    ``{source: lemma, target: form, references: [2, 3]}``.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        columns = {name: tuple(c) if isinstance(c, list | tuple) else c for name, c in given.items()}
    elif isinstance(given, Sequence) and not isinstance(given, str):
        columns = dict(zip(("source", "target"), given, strict=False))
        if given[2:]:
            columns["references"] = tuple(given[2:])
    else:
        columns = {}
    flat = [c for column in columns.values() for c in (column if isinstance(column, tuple) else (column,))]
    if not columns.keys() >= {"source", "target"} or not all(_is_column(column) for column in flat):
        raise ConfigError(
            f"columns={given!r} is invalid: give the columns of source and target, each by name or by number, "
            f"counted from 0, for example {EXAMPLES}"
        )
    return columns


def _is_column(column: Any) -> bool:
    return isinstance(column, str) or (isinstance(column, int) and not isinstance(column, bool) and column >= 0)


def column_index(column: Column, names: Sequence[str], where: str) -> int:
    """The index of a column, given by name or number, among the columns of a file."""
    if column in names:
        return names.index(str(column))
    if str(column).isdecimal() and int(column) < len(names):
        return int(column)
    raise InputError(f"{where}: {unknown('column', str(column), names)}; set the columns with {EXAMPLES}")

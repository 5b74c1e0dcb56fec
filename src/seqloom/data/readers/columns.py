"""Which column of a file holds which field, by name or number."""

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.errors import InputError, OptionError, unknown

Column = str | int
Columns = Mapping[str, Column | tuple[Column, ...]]
"""The column of every field; several columns are a list of values."""
EXAMPLES = "--columns 0,2 or --columns '{source: lemma, target: form}'"


def columns_of(given: Any) -> Columns | None:
    """Columns as a person gives them: ``[0, 2]``, source and target first and then further references, or
    ``{source: lemma, target: form, references: [2, 3]}``."""
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
        raise OptionError(
            f"columns={given!r}: give the column of the source and that of the target, each by its name or its "
            f"number from 0, for example {EXAMPLES}"
        )
    return columns


def _is_column(column: Any) -> bool:
    return isinstance(column, str) or (isinstance(column, int) and not isinstance(column, bool) and column >= 0)


def place_of(column: Column, names: Sequence[str], where: str) -> int:
    """The number of a column among those that there are."""
    if column in names:
        return names.index(str(column))
    if str(column).isdecimal() and int(column) < len(names):
        return int(column)
    raise InputError(f"{where}: {unknown('column', str(column), names)}; choose others by {EXAMPLES}")

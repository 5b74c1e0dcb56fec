"""Examples, wherever they come from: one protocol for files, pairs in memory and a split of either."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from seqloom.errors import InputError

Empty = Literal["skip", "refuse"]
SIDES = ("source", "target")
SURROGATE = re.compile(r"[\ud800-\udfff]")


class Example(dict[str, Any]):
    """One example as read: values by column name. ``references`` are further right answers, if there are any."""

    def __init__(self, source: Any, target: Any, references: Iterable[Any] = (), **further: Any) -> None:
        super().__init__(source=source, target=target, **further)
        if references := tuple(references):
            self["references"] = references

    @property
    def source(self) -> str:
        """The text of the source."""
        return str(self["source"])

    @property
    def target(self) -> str:
        """The text of the target."""
        return str(self["target"])

    @property
    def references(self) -> tuple[Any, ...]:
        """Further right answers."""
        return tuple(self.get("references", ()))


class Skipped(Counter[str]):
    """How many examples were left out, by reason."""


class Row(NamedTuple):
    """An example before it is checked: where each of its columns stands, and their values."""

    place: Callable[[str], str]
    values: Mapping[str, Any]


@runtime_checkable
class Examples(Protocol):
    """Examples that can be read, again and again unless ``once``.

    paths: the files that they are in, if any.
    once: whether they can be read only once, as standard input, a pipe or an iterator.
    """

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def once(self) -> bool: ...

    def check(self) -> None:
        """Refuse what can't be read, before any work is done."""

    def read(self, *, empty: Empty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """All examples in order.

        empty: whether an example with an empty source or target is left out or refused.
        skipped: where those left out are counted, under "empty".
        """


class Pairs:
    """Examples in memory: (source, target), (source, target, references), or mappings from column to value.

    name: what they are called in messages.
    """

    paths = ()

    def __init__(self, given: Iterable[Any], *, name: str = "the data") -> None:
        self._given = given
        self._name = name

    @property
    def once(self) -> bool:
        """An iterator can be read only once."""
        return isinstance(self._given, Iterator)

    def check(self) -> None:
        """Refuse an empty list."""
        if isinstance(self._given, Sized) and not len(self._given):
            raise InputError(f"{self._name}: the list of pairs is empty")

    def read(self, *, empty: Empty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """All examples in order."""
        return checked(self._rows(), empty=empty, skipped=skipped)

    def _rows(self) -> Iterator[Row]:
        for number, pair in enumerate(self._given):
            where = f"pair {number} of {self._name}"
            if isinstance(pair, Mapping) and pair.keys() >= {*SIDES}:
                values = pair
            elif isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) in (2, 3):
                values = dict(zip((*SIDES, "references"), pair, strict=False))
            else:
                raise InputError(f"{where} is {pair!r}: a pair is (source, target), both text")
            yield Row(lambda _, where=where: where, values)  # type: ignore[misc]


def checked(rows: Iterable[Row], *, empty: Empty, skipped: Skipped | None) -> Iterator[Example]:
    """Rows as examples: lists of right answers taken apart, those with an empty side skipped or refused."""
    for place, values in rows:
        (source, *more), (target, *others) = (_each(values[side], place, side) or [""] for side in SIDES)
        if more:
            raise InputError(f"{place('source')}: the source is a list; only targets can have several right answers")
        side = "source" if is_blank(source) else "target" if is_blank(target) else None
        if side is None:
            given = values.get("references")
            references = (*others, *(texts(given, place, "references") if isinstance(target, str) else given or ()))
            further = {name: value for name, value in values.items() if name not in (*SIDES, "references")}
            yield Example(source, target, (one for one in references if not is_blank(one)), **further)
        elif empty == "refuse":
            raise InputError(f"{place(side)}: the {side} is empty; mend it, or let empty pairs be skipped")
        elif skipped is not None:
            skipped["empty"] += 1


def is_blank(value: Any) -> bool:
    """Whether a value has nothing in it."""
    return not (value.strip() if isinstance(value, str) else value)


def _each(value: Any, place: Callable[[str], str], column: str) -> list[Any]:
    """The values of a column: an array of numbers is one, a list of texts is several."""
    leaf = value
    while isinstance(leaf, list | tuple) and leaf:
        leaf = leaf[0]
    return [value] if leaf is not value and isinstance(leaf, int | float) else texts(value, place, column)


def texts(value: Any, place: Callable[[str], str], column: str) -> list[str]:
    """A value as the texts it holds: one, those of a list, or none."""
    if isinstance(value, list | tuple):
        return [text for one in value for text in texts(one, place, column)]
    if value is None:
        return []
    if not isinstance(value, str):
        raise InputError(f"{place(column)}: {value!r} is a {type(value).__name__}, not text; put it in quotes")
    check_characters(value, place(column))
    return [value]


def check_characters(text: str, where: str) -> None:
    """Refuse a text that no UTF-8 can hold."""
    if SURROGATE.search(text):
        raise InputError(f"{where}: {text!r} holds half a character (a lone surrogate); take it out")

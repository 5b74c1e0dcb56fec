"""Examples from any source, behind one protocol: files, pairs in memory, or a split of either."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from seqloom.errors import InputError

OnEmpty = Literal["skip", "error"]
SIDES = ("source", "target")
SURROGATE = re.compile(r"[\ud800-\udfff]")


class Example(dict[str, Any]):
    """One example as read: values by column name. ``references`` holds additional references, if there are any."""

    def __init__(self, source: Any, target: Any, references: Iterable[Any] = (), **further: Any) -> None:
        super().__init__(source=source, target=target, **further)
        if references := tuple(references):
            self["references"] = references

    @property
    def source(self) -> str:
        """The source text."""
        return str(self["source"])

    @property
    def target(self) -> str:
        """The target text."""
        return str(self["target"])

    @property
    def references(self) -> tuple[Any, ...]:
        """Additional references, besides the target."""
        return tuple(self.get("references", ()))


class Skipped(Counter[str]):
    """Number of skipped examples, by reason."""


class Row(NamedTuple):
    """An example before validation: the location of each of its columns, for error messages, and their values."""

    locate: Callable[[str], str]
    values: Mapping[str, Any]


@runtime_checkable
class Examples(Protocol):
    """Examples that can be read any number of times, or a single time if ``once`` is true.

    paths: the files that hold them, if any.
    once: whether they can be read only once, as from standard input, a pipe or an iterator.
    """

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def once(self) -> bool: ...

    def check(self) -> None:
        """Raise an error if they can't be read, before any work is done."""

    def read(self, *, on_empty: OnEmpty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """Iterate over all examples in order.

        on_empty: whether to skip an example with an empty source or target, or to raise an error.
        skipped: counter for skipped examples, under "empty".
        """


class Pairs:
    """Examples in memory: (source, target), (source, target, references), or mappings from column to value.

    name: name of the data in error messages.
    """

    paths = ()

    def __init__(self, given: Iterable[Any], *, name: str = "the data") -> None:
        self._given = given
        self._name = name

    @property
    def once(self) -> bool:
        """Whether they are an iterator, which can be read only once."""
        return isinstance(self._given, Iterator)

    def check(self) -> None:
        """Raise an error if the list is empty."""
        if isinstance(self._given, Sized) and not len(self._given):
            raise InputError(f"{self._name}: the list of pairs is empty")

    def read(self, *, on_empty: OnEmpty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """Iterate over all examples in order."""
        return validate_rows(self._rows(), on_empty=on_empty, skipped=skipped)

    def _rows(self) -> Iterator[Row]:
        for number, pair in enumerate(self._given):
            where = f"pair {number} of {self._name}"
            if isinstance(pair, Mapping) and pair.keys() >= {*SIDES}:
                values = pair
            elif isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) in (2, 3):
                values = dict(zip((*SIDES, "references"), pair, strict=False))
            else:
                raise InputError(f"{where} is {pair!r}: it must be a tuple (source, target) of two strings")
            yield Row(lambda _, where=where: where, values)  # type: ignore[misc]


def validate_rows(rows: Iterable[Row], *, on_empty: OnEmpty, skipped: Skipped | None) -> Iterator[Example]:
    """Turn rows into examples: split lists of references, and skip or reject rows with an empty side."""
    for locate, values in rows:
        (source, *more), (target, *others) = (_alternatives(values[side], locate, side) or [""] for side in SIDES)
        if more:
            raise InputError(f"{locate('source')}: the source is a list; only targets can have several references")
        side = "source" if is_blank(source) else "target" if is_blank(target) else None
        if side is None:
            given = values.get("references")
            references = (
                *others,
                *(flatten_texts(given, locate, "references") if isinstance(target, str) else given or ()),
            )
            further = {name: value for name, value in values.items() if name not in (*SIDES, "references")}
            yield Example(source, target, (one for one in references if not is_blank(one)), **further)
        elif on_empty == "error":
            raise InputError(
                f"{locate(side)}: the {side} is empty: fill it in or remove the pair "
                "(in training, data.on_empty=skip skips such pairs)"
            )
        elif skipped is not None:
            skipped["empty"] += 1


def is_blank(value: Any) -> bool:
    """Whether a value is empty or whitespace."""
    return not (value.strip() if isinstance(value, str) else value)


def _alternatives(value: Any, locate: Callable[[str], str], column: str) -> list[Any]:
    """The alternative values of a column: an array of numbers is one value, a list of texts is several."""
    leaf = value
    while isinstance(leaf, list | tuple) and leaf:
        leaf = leaf[0]
    if leaf is not value and isinstance(leaf, int | float):
        return [value]
    return flatten_texts(value, locate, column)


def flatten_texts(value: Any, locate: Callable[[str], str], column: str) -> list[str]:
    """All texts in a value, which is a text, a nested list of texts, or None."""
    if isinstance(value, list | tuple):
        return [text for one in value for text in flatten_texts(one, locate, column)]
    if value is None:
        return []
    if not isinstance(value, str):
        raise InputError(f"{locate(column)}: {value!r} is a {type(value).__name__}, not text: put it in quotes")
    check_surrogates(value, locate(column))
    return [value]


def check_surrogates(text: str, where: str) -> None:
    """Raise an error if UTF-8 can't encode the text."""
    if SURROGATE.search(text):
        raise InputError(f"{where}: {text!r} contains a lone surrogate (half a character): remove it")

"""An alignment in the terminal: which source tokens each target token looked at.

The source goes across and the target down; the darker a mark, the greater the weight. A label across is written from
top to bottom, one character a row, so a column is as narrow for a word as for a character.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from seqloom.errors import InputError, SizeError

LONGEST: Final = 14
"""Characters of a label at most, across and down; the rest is left out."""


class Ink(NamedTuple):
    """What can be drawn with: marks from weak to strong, each as wide as two characters, and signs for labels."""

    marks: tuple[str, ...]
    space: str
    invisible: str
    more: str


BLOCKS: Final = Ink(("· ", "░░", "▒▒", "▓▓", "██"), space="␣", invisible="◌", more="…")
ASCII: Final = Ink((". ", "::", "++", "**", "##"), space="_", invisible="?", more="~")

WEAK: Final = np.array([120, 130, 145])
STRONG: Final = np.array([255, 120, 0])
"""The two ends of the colours, both to be seen on black and on white."""


@dataclass(frozen=True)
class Alignment:
    """A drawing for rich's ``console.print``; it fits the console's width, encoding and colours.

    Weights count in proportion to the largest of them. Where the source is too long for the width, it goes on in
    another panel below.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float64]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The panels, each a run of source tokens that fits the width."""
        ink = BLOCKS if _can_write("".join(BLOCKS.marks), options.encoding) else ASCII
        across = [[_left_to_right(place) for place in _places(t, ink, options.encoding)] for t in self.source]
        down = [_left_to_right("".join(_places(t, ink, options.encoding))) for t in self.target]
        margin = max(cell_len(label) for label in down) + 1
        column = max(2, *(cell_len(place) for label in across for place in label))
        fitting = max(1, (options.max_width - margin) // column)
        relative = self.weights / (self.weights.max() or 1.0)
        for first in range(0, len(across), fitting):
            if first:
                yield Segment.line()
            run = slice(first, first + fitting)
            yield from _header(across[run], margin=margin, column=column)
            for label, strengths in zip(down, relative[:, run], strict=True):
                yield Segment(" " * (margin - 1 - cell_len(label)) + label + " ", Style(bold=True))
                for strength in strengths:
                    yield _mark(strength, ink, column=column)
                yield Segment.line()


def alignment(source: Sequence[str], target: Sequence[str], weights: ArrayLike) -> Alignment:
    """A drawing of attention ``weights``, a row for each target token and a column for each source token."""
    table = np.asarray(weights, dtype=np.float64)
    if table.shape != (len(target), len(source)):
        shape = " × ".join(map(str, table.shape))
        raise SizeError(
            f"weights of {shape} don't fit {len(target)} target and {len(source)} source tokens: "
            f"give a row for each target token and a column for each source token"
        )
    if not table.size:
        raise InputError("there is no alignment to draw: the source or the target is empty")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise InputError("an alignment's weights are finite and not negative; these are not")
    return Alignment(tuple(source), tuple(target), table)


def _header(labels: Sequence[Sequence[str]], *, margin: int, column: int) -> Iterator[Segment]:
    """The labels side by side, each from top to bottom, standing on the marks."""
    height = max(len(label) for label in labels)
    for row in range(height):
        yield Segment(" " * margin)
        for label in labels:
            empty = height - len(label)
            place = label[row - empty] if row >= empty else ""
            yield Segment(place + " " * (column - cell_len(place)), Style(bold=True))
        yield Segment.line()


def _mark(strength: float, ink: Ink, *, column: int) -> Segment:
    mark = ink.marks[round(strength * (len(ink.marks) - 1))]
    red, green, blue = (WEAK + strength * (STRONG - WEAK)).round().astype(int)
    return Segment(mark + " " * (column - 2), Style(color=f"rgb({red},{green},{blue})"))


def _places(token: str, ink: Ink, encoding: str) -> list[str]:
    """A token as what stands in one place each: a character with all the marks on it, made visible."""
    places: list[str] = []
    for character in token or " ":
        category = unicodedata.category(character)
        if character.isspace():
            places.append(ink.space)
        elif category.startswith("M"):
            places.append((places.pop() if places else ink.invisible) + character)
        elif category.startswith("C"):  # no width, or one that upsets the lines, as marks of direction do
            places += [ink.invisible] if len(token) == 1 else []
        else:
            places.append(character)
    if len(places) > LONGEST:
        places[LONGEST - 1 :] = [ink.more]
    return [place if _can_write(place, encoding) else "?" for place in places or [ink.invisible]]


def _left_to_right(text: str) -> str:
    """Between marks of direction where need be, for terminals turn round a line's run of Arabic or Hebrew."""
    right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"\u200e{text}\u200e" if right_to_left else text


def _can_write(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True

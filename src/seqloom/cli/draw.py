"""An attention matrix in the terminal: one column per source token and one row per target token.

The darker a mark, the greater the weight. Column labels are written from top to bottom, one character per line, so
that all columns are equally narrow.
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

from seqloom.errors import InputError, ShapeError

MAX_LABEL: Final = 14
"""Maximum number of characters of a label; longer labels are truncated."""


class Ink(NamedTuple):
    """The characters of a drawing.

    marks: marks for weights from low to high, two characters wide.
    space, invisible, ellipsis: shown in labels for a space, for an invisible character, and at a truncation.
    """

    marks: tuple[str, ...]
    space: str
    invisible: str
    ellipsis: str


BLOCKS: Final = Ink(("· ", "░░", "▒▒", "▓▓", "██"), space="␣", invisible="◌", ellipsis="…")
ASCII: Final = Ink((". ", "::", "++", "**", "##"), space="_", invisible="?", ellipsis="~")

LOW: Final = np.array([120, 130, 145])
HIGH: Final = np.array([255, 120, 0])
"""Colors of the lowest and the highest weight, both visible on black and on white."""


@dataclass(frozen=True)
class Alignment:
    """A drawing for rich's ``console.print``; it adapts to the console's width, encoding and colors.

    Weights are shown relative to the largest one. A source that is too long for the width continues in another panel
    below.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    attention: NDArray[np.float64]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The panels, each with as many source tokens as fit the width."""
        ink = BLOCKS if _can_encode("".join(BLOCKS.marks), options.encoding) else ASCII
        columns = [[_left_to_right(glyph) for glyph in _glyphs(t, ink, options.encoding)] for t in self.source]
        rows = [_left_to_right("".join(_glyphs(t, ink, options.encoding))) for t in self.target]
        margin = max(cell_len(label) for label in rows) + 1
        width = max(2, *(cell_len(glyph) for label in columns for glyph in label))
        per_panel = max(1, (options.max_width - margin) // width)
        relative = self.attention / (self.attention.max() or 1.0)
        for start in range(0, len(columns), per_panel):
            if start:
                yield Segment.line()
            panel = slice(start, start + per_panel)
            yield from _header(columns[panel], margin=margin, width=width)
            for label, strengths in zip(rows, relative[:, panel], strict=True):
                yield Segment(" " * (margin - 1 - cell_len(label)) + label + " ", Style(bold=True))
                for strength in strengths:
                    yield _mark(strength, ink, width=width)
                yield Segment.line()


def alignment(source: Sequence[str], target: Sequence[str], attention: ArrayLike) -> Alignment:
    """A drawing of attention weights, with one row per target token and one column per source token."""
    matrix = np.asarray(attention, dtype=np.float64)
    if matrix.shape != (len(target), len(source)):
        shape = " × ".join(map(str, matrix.shape))
        raise ShapeError(
            f"attention weights of shape {shape} don't match {len(target)} target and {len(source)} source tokens: "
            f"give one row per target token and one column per source token"
        )
    if not matrix.size:
        raise InputError("the alignment can't be drawn: the source or the target is empty")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
        raise InputError("the alignment can't be drawn: attention weights must be finite and at least 0")
    return Alignment(tuple(source), tuple(target), matrix)


def _header(labels: Sequence[Sequence[str]], *, margin: int, width: int) -> Iterator[Segment]:
    """The column labels, written from top to bottom and aligned at the bottom."""
    height = max(len(label) for label in labels)
    for row in range(height):
        yield Segment(" " * margin)
        for label in labels:
            empty = height - len(label)
            glyph = label[row - empty] if row >= empty else ""
            yield Segment(glyph + " " * (width - cell_len(glyph)), Style(bold=True))
        yield Segment.line()


def _mark(strength: float, ink: Ink, *, width: int) -> Segment:
    mark = ink.marks[round(strength * (len(ink.marks) - 1))]
    red, green, blue = (LOW + strength * (HIGH - LOW)).round().astype(int)
    return Segment(mark + " " * (width - 2), Style(color=f"rgb({red},{green},{blue})"))


def _glyphs(token: str, ink: Ink, encoding: str) -> list[str]:
    """The visible glyphs of a token: each is a character with its combining marks."""
    glyphs: list[str] = []
    for character in token or " ":
        category = unicodedata.category(character)
        if character.isspace():
            glyphs.append(ink.space)
        elif category.startswith("M"):
            glyphs.append((glyphs.pop() if glyphs else ink.invisible) + character)
        elif category.startswith(
            "C"
        ):  # control and format characters, such as direction marks, would break the layout
            glyphs += [ink.invisible] if len(token) == 1 else []
        else:
            glyphs.append(character)
    if len(glyphs) > MAX_LABEL:
        glyphs[MAX_LABEL - 1 :] = [ink.ellipsis]
    return [glyph if _can_encode(glyph, encoding) else "?" for glyph in glyphs or [ink.invisible]]


def _left_to_right(text: str) -> str:
    """Add direction marks if needed: terminals reverse a run of Arabic or Hebrew characters."""
    right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"\u200e{text}\u200e" if right_to_left else text


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True

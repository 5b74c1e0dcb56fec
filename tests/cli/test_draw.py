"""Drawings of attention weights in the terminal, character by character."""

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from seqloom.cli.draw import alignment
from seqloom.errors import InputError, ShapeError

MARKS = "·░▒▓█"
LRM = "\u200e"


def printed(source, target, weights, *, width: int = 80, encoding: str = "utf-8") -> list[str]:
    """The lines printed on a console of this width and encoding."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width).print(alignment(source, target, weights))
    file.flush()
    return raw.getvalue().decode(encoding).splitlines()


def columns(line: str, margin: int) -> list[str]:
    """The columns of a line, each two terminal cells wide."""
    found, cells = [""], 0
    for character in line:
        if cells >= margin + 2 * len(found) and cell_len(character):
            found.append("")
        if cells >= margin:
            found[-1] += character
        cells += cell_len(character)
    return [column.strip() for column in found]


def uniform(source, target) -> np.ndarray:
    return np.full((len(target), len(source)), 1 / len(source))


def test_greater_weight_has_darker_mark():
    weights = [[0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0]]
    header, first, second = printed("abcde", "xy", weights)
    assert header.split() == list("abcde")
    assert columns(first, 2) == ["·", "░░", "▒▒", "▓▓", "██"]
    assert columns(second, 2) == ["██", "·", "·", "·", "·"]
    assert (first[0], second[0]) == ("x", "y")


def test_marks_are_monotonic_in_weights():
    weights = np.random.default_rng(0).dirichlet(np.ones(30), size=20)
    lines = printed("s" * 30, "t" * 20, weights)[1:]
    levels = np.array([[MARKS.index(column[0]) for column in columns(line, 2)] for line in lines])
    by_weight = levels.flatten()[np.argsort(weights.flatten())]
    assert (np.diff(by_weight) >= 0).all()
    assert levels[np.unravel_index(weights.argmax(), weights.shape)] == len(MARKS) - 1


@pytest.mark.parametrize(
    "source",
    [
        "en_US 1/2/2024",
        "zh_CN 1914年8月21日",
        "ar_EG الثلاثاء، ١٩\u200f/٣\u200f/٢٠٨٦",
        "fa_IR سه\u200cشنبه ۲۹",
        "hi_IN मंगलवार, 14 सितंबर",
        "th_TH วันที่ 5",
        ["▁Der", "▁Hut", "ist", "日本", "हिन्दी", "\n", "", "\u200f\u200f", "Donaudampfschifffahrt"],
    ],
)
@pytest.mark.parametrize("target", ["2024-01-02", ["日", "▁orange", "ि", "שלום"]])
@pytest.mark.parametrize("width", [80, 20])
def test_columns_are_aligned(source, target, width):
    lines = printed(source, target, uniform(source, target), width=width)
    for panel in "\n".join(lines).split("\n\n"):
        rows = panel.split("\n")
        assert len({cell_len(row) for row in rows}) == 1
        assert cell_len(rows[0]) <= width
    assert sum(line.count("█") for line in lines) == 2 * len(source) * len(target)


def test_combining_marks_and_spaces_are_visible():
    header = printed("क\u093f \u0301\u200f", "x", uniform("12345", "x"))[0]
    assert columns(header, 2) == ["क", "◌\u093f", "␣", "◌\u0301", "◌"]


def test_word_label_is_vertical_with_combining_marks():
    *header, marks = printed(["ab", "की", "e\u0301té"], "x", [[1, 1, 1]])
    assert [columns(line, 2) for line in header] == [["", "", "e\u0301"], ["a", "", "t"], ["b", "की", "é"]]
    assert columns(marks, 2) == ["██"] * 3


def test_long_label_is_truncated():
    *header, marks = printed(["abcdefghijklmnopqrstuvwxyz", "b"], ["x" * 50], [[1, 1]])
    assert "".join(line.split()[0] for line in header) == "abcdefghijklm…"
    assert marks.split()[0] == "x" * 13 + "…"


def test_right_to_left_characters_are_separated_by_direction_marks():
    """So there is no run of right-to-left characters that the terminal would reverse."""
    header, word, digit = printed("אב٣a", ["שלום", "٣"], uniform("אב٣a", "xy"))
    assert header.split() == [f"{LRM}א{LRM}", f"{LRM}ב{LRM}", f"{LRM}٣{LRM}", "a"]
    assert (word.split()[0], digit.split()[0]) == (f"{LRM}שלום{LRM}", f"{LRM}٣{LRM}")


def test_long_source_continues_in_next_panel():
    source = [chr(ord("a") + i) for i in range(26)]
    weights = np.eye(26)[[0, 25]]
    lines = printed(source, "xy", weights, width=22)
    panels = [panel.split("\n") for panel in "\n".join(lines).split("\n\n")]
    assert [panel[0].split() for panel in panels] == [source[:10], source[10:20], source[20:]]
    assert [panel[1].count("█") for panel in panels] == [2, 0, 0]
    assert [panel[2].count("█") for panel in panels] == [0, 0, 2]


def test_ascii_marks_if_encoding_lacks_blocks():
    lines = printed("é 1", "x", [[0.0, 0.5, 1.0]], encoding="ascii")
    assert lines == ["  ? _ 1 ", "x . ++##"]
    assert "é" in printed("é 1", "x", [[0.0, 0.5, 1.0]], encoding="latin-1")[0]


def test_colors_only_on_color_consoles():
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="truecolor", width=80).print(alignment("ab", "x", [[0, 1]]))
    weak, strong = file.getvalue().splitlines()[1].split("· ")
    assert "\x1b[38;2;" in weak
    assert "\x1b[38;2;" in strong
    assert "\x1b" not in "".join(printed("ab", "x", [[0, 1]]))


def test_invalid_attention_weights_are_errors():
    with pytest.raises(ShapeError, match="attention weights of shape 1 × 2 don't match 2 target and 1 source tokens"):
        alignment("a", "xy", [[0.5, 0.5]])
    with pytest.raises(InputError, match="empty"):
        alignment("", "x", np.zeros((1, 0)))
    with pytest.raises(InputError, match="finite"):
        alignment("a", "x", [[float("nan")]])


def test_zero_weights_have_lightest_mark():
    assert columns(printed("ab", "x", [[0.0, 0.0]])[1], 2) == ["·", "·"]

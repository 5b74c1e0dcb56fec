"""The noise that people make when they type what a style guide would print.

Nothing here joins two numbers: ``1. 2. 2024`` may lose its dots, but ``1.2.2024`` may not.
"""

import re
from collections.abc import Callable
from random import Random

Noise = Callable[[str, Random], str]


def _not_between_digits(characters: str) -> re.Pattern[str]:
    """One of the characters, wherever its absence joins no two digits (of any script)."""
    return re.compile(rf"(?<!\d)[{characters}]|[{characters}](?!\d)")


DOT = _not_between_digits(".")
COMMA = _not_between_digits(",،")
SPACE = _not_between_digits(r"\s")
GAP = re.compile(r"[\s/.,،-](?=.)")
TYPEWRITER = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u200e": None, "\u200f": None})


def typewriter(text: str, random: Random) -> str:
    """What keyboards lack: non-breaking spaces become plain ones, marks of direction vanish."""
    return text.translate(TYPEWRITER)


def case(text: str, random: Random) -> str:
    """All capitals, or none."""
    return text.upper() if random.random() < 0.5 else text.lower()


def missing_dots(text: str, random: Random) -> str:
    """No dots, but between digits."""
    return DOT.sub("", text)


def missing_commas(text: str, random: Random) -> str:
    """No commas, but between digits."""
    return COMMA.sub("", text)


def missing_space(text: str, random: Random) -> str:
    """One space forgotten."""
    spaces = [match.start() for match in SPACE.finditer(text)]
    if not spaces:
        return text
    at = random.choice(spaces)
    return text[:at] + text[at + 1 :]


def extra_space(text: str, random: Random) -> str:
    """One space too many, after a space or a separator."""
    gaps = [match.end() for match in GAP.finditer(text)]
    if not gaps:
        return text
    at = random.choice(gaps)
    return f"{text[:at]} {text[at:]}"


NOISES: tuple[Noise, ...] = (typewriter, case, missing_dots, missing_commas, missing_space, extra_space)


def add_noise(text: str, random: Random, *, chance: float) -> str:
    """The text with each kind of noise at its ``chance``, by itself."""
    for noise in NOISES:
        if random.random() < chance:
            text = noise(text, random)
    return text

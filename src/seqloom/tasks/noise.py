"""Typing noise: the deviations from standard spelling in dates typed by people.

No kind of noise joins two numbers: ``1. 2. 2024`` can lose its dots, but ``1.2.2024`` can't.
"""

import re
from collections.abc import Callable
from random import Random

Noise = Callable[[str, Random], str]


def _not_between_digits(characters: str) -> re.Pattern[str]:
    """Match one of the characters, except between two digits (of any script)."""
    return re.compile(rf"(?<!\d)[{characters}]|[{characters}](?!\d)")


DOT = _not_between_digits(".")
COMMA = _not_between_digits(",،")
SPACE = _not_between_digits(r"\s")
GAP = re.compile(r"[\s/.,،-](?=.)")
TYPEWRITER = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u200e": None, "\u200f": None})


def typewriter(text: str, random: Random) -> str:
    """Replace characters missing on keyboards: plain instead of non-breaking spaces, no direction marks."""
    return text.translate(TYPEWRITER)


def case(text: str, random: Random) -> str:
    """Uppercase or lowercase the whole text."""
    return text.upper() if random.random() < 0.5 else text.lower()


def missing_dots(text: str, random: Random) -> str:
    """Remove all dots except between digits."""
    return DOT.sub("", text)


def missing_commas(text: str, random: Random) -> str:
    """Remove all commas except between digits."""
    return COMMA.sub("", text)


def missing_space(text: str, random: Random) -> str:
    """Remove one space."""
    spaces = [match.start() for match in SPACE.finditer(text)]
    if not spaces:
        return text
    at = random.choice(spaces)
    return text[:at] + text[at + 1 :]


def extra_space(text: str, random: Random) -> str:
    """Add a space after a space or a separator."""
    gaps = [match.end() for match in GAP.finditer(text)]
    if not gaps:
        return text
    at = random.choice(gaps)
    return f"{text[:at]} {text[at:]}"


NOISES: tuple[Noise, ...] = (typewriter, case, missing_dots, missing_commas, missing_space, extra_space)


def add_noise(text: str, random: Random, *, probability: float) -> str:
    """Apply each kind of noise independently, with probability ``probability``."""
    for noise in NOISES:
        if random.random() < probability:
            text = noise(text, random)
    return text

"""Dates as written in a locale, with the patterns and names of CLDR (through babel) and the locale's own digits."""

from datetime import date
from difflib import get_close_matches
from random import Random
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.dates import parse_pattern, tokenize_pattern, untokenize_pattern
from babel.localedata import locale_identifiers

from seqloom.errors import ConfigError, UnknownNameError

ZEROS: Final = {
    "latn": 0x0030,
    "arab": 0x0660,
    "arabext": 0x06F0,
    "deva": 0x0966,
    "beng": 0x09E6,
    "guru": 0x0A66,
    "gujr": 0x0AE6,
    "orya": 0x0B66,
    "tamldec": 0x0BE6,
    "telu": 0x0C66,
    "knda": 0x0CE6,
    "mlym": 0x0D66,
    "thai": 0x0E50,
    "laoo": 0x0ED0,
    "tibt": 0x0F20,
    "mymr": 0x1040,
    "khmr": 0x17E0,
    "cakm": 0x11136,
    "olck": 0x1C50,
    "adlm": 0x1E950,
    "nkoo": 0x07C0,
    "mtei": 0xABF0,
    "hmnp": 0x1E140,
}
"""Decimal numbering systems of CLDR and the code points of their zeros; babel provides only their names."""

WIDTHS: Final = {"y": {1}, "M": {1, 2, 3, 4}, "d": {1, 2}, "E": {1, 2, 3, 4}}
"""Fields and widths that can be parsed unambiguously: no eras, no one-letter month names."""

STANDALONE: Final = str.maketrans("Lc", "ME")
"""CLDR's letters for the stand-alone forms of month and weekday, mapped to the usual ones."""


class DateWriter:
    """Writes dates in one locale, with its patterns and its digits (tables for ``str.translate``)."""

    def __init__(self, name: str) -> None:
        try:
            self.locale = Locale.parse(name)
        except (UnknownLocaleError, ValueError):
            near = get_close_matches(name, locale_identifiers())
            raise UnknownNameError(
                f"unknown locale {name!r}: use a babel locale name, such as {', '.join(near or ['en_GB', 'pt_BR'])}"
            ) from None
        self.name = name
        self.patterns = [parse_pattern(pattern) for pattern in _full_patterns(self.locale)]
        orders = {_number_order(pattern.pattern) for pattern in self.patterns}
        if orders >= {"dMy", "Mdy"} or orders >= {"yMd", "ydM"}:
            raise ConfigError(
                f"locale {name!r} is ambiguous: CLDR has patterns that write the same day as 1/2 and as 2/1"
            )
        self.digits = [_digits(system) for system in _numbering_systems(self.locale)]

    def write(self, day: date, random: Random) -> str:
        """Write a day in a random pattern and numbering system of the locale."""
        return random.choice(self.patterns).apply(day, self.locale).translate(random.choice(self.digits))


def _full_patterns(locale: Locale) -> list[str]:
    """The patterns of a locale with day, month and full year, in a fixed order; two-digit years are made full."""
    formats = [*locale.date_formats.values(), *locale.datetime_skeletons.values()]
    return sorted({full for each in formats if (full := _with_full_year(each.pattern)) is not None})


def _with_full_year(pattern: str) -> str | None:
    """The pattern with its year in full; None if it is incomplete or can't be parsed unambiguously."""
    tokens = [("field", ("y", 1)) if token == ("field", ("y", 2)) else token for token in tokenize_pattern(pattern)]
    full = untokenize_pattern(tokens)
    fields = _fields(full)
    readable = all(width in WIDTHS.get(letter, ()) for letter, width in fields)
    return full if readable and {"d", "M", "y"} <= {letter for letter, _ in fields} else None


def _fields(pattern: str) -> list[tuple[str, int]]:
    """The fields of a pattern as (letter, width): d, M, y, and E for the day of the week."""
    fields = [value for _, value in tokenize_pattern(pattern) if not isinstance(value, str)]
    return [(letter.translate(STANDALONE), width) for letter, width in fields]


def _number_order(pattern: str) -> str:
    """The order of the numeric fields of a pattern: ``Mdy`` for ``E, M/d/y``, but ``dy`` for ``d MMMM y``."""
    return "".join(letter for letter, width in _fields(pattern) if letter in "dMy" and width < 3)


def _numbering_systems(locale: Locale) -> list[str]:
    """Latin digits, which are used everywhere, and the native digits of the locale if it has them."""
    native = {locale.default_numbering_system, locale.other_numbering_systems.get("native", "latn")}
    return sorted(native & ZEROS.keys() | {"latn"})


def _digits(system: str) -> dict[int, str]:
    """Table from Latin digits to those of a numbering system."""
    return {ord("0") + digit: chr(ZEROS[system] + digit) for digit in range(10)}

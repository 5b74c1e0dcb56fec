"""How a locale writes a day: the patterns and names of CLDR, by babel, with the locale's own digits."""

from datetime import date
from difflib import get_close_matches
from random import Random
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.dates import parse_pattern, tokenize_pattern, untokenize_pattern
from babel.localedata import locale_identifiers

from seqloom.errors import OptionError, UnknownNameError

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
"""CLDR's decimal numbering systems by the code points of their zeros; babel knows only their names."""

WIDTHS: Final = {"y": {1}, "M": {1, 2, 3, 4}, "d": {1, 2}, "E": {1, 2, 3, 4}}
"""The fields of a pattern that can be read back, with their widths: no eras, no mere initials of months."""

STAND_ALONE: Final = str.maketrans("Lc", "ME")
"""A month's and a weekday's letters where CLDR writes them in the form they have alone."""


class DateWriter:
    """One locale's ways to write a day: its patterns, and its digits as tables for ``str.translate``."""

    def __init__(self, name: str) -> None:
        try:
            self.locale = Locale.parse(name)
        except (UnknownLocaleError, ValueError):
            near = get_close_matches(name, locale_identifiers())
            raise UnknownNameError(
                f"unknown locale {name!r}; write it as babel does, such as {', '.join(near or ['en_GB', 'pt_BR'])}"
            ) from None
        self.name = name
        self.patterns = [parse_pattern(pattern) for pattern in _full_patterns(self.locale)]
        orders = {_order(pattern.pattern) for pattern in self.patterns}
        if orders >= {"dMy", "Mdy"} or orders >= {"yMd", "ydM"}:
            raise OptionError(f"locale {name!r} can't be read back: in CLDR it writes 1/2 and 2/1 for the same day")
        self.digits = [_digits(system) for system in _numbering_systems(self.locale)]

    def write(self, day: date, random: Random) -> str:
        """The day in one of the locale's patterns and kinds of digits."""
        return random.choice(self.patterns).apply(day, self.locale).translate(random.choice(self.digits))


def _full_patterns(locale: Locale) -> list[str]:
    """A locale's patterns of day, month and year, a two-digit year made full, in a fixed order."""
    formats = [*locale.date_formats.values(), *locale.datetime_skeletons.values()]
    return sorted({full for each in formats if (full := _with_full_year(each.pattern)) is not None})


def _with_full_year(pattern: str) -> str | None:
    """The pattern with its year in full; None where it does not tell the day, or not in a way to be read back."""
    tokens = [("field", ("y", 1)) if token == ("field", ("y", 2)) else token for token in tokenize_pattern(pattern)]
    full = untokenize_pattern(tokens)
    fields = _fields(full)
    readable = all(width in WIDTHS.get(letter, ()) for letter, width in fields)
    return full if readable and {"d", "M", "y"} <= {letter for letter, _ in fields} else None


def _fields(pattern: str) -> list[tuple[str, int]]:
    """The fields of a pattern as letter and width: d, M, y, and E for the day of the week."""
    fields = [value for _, value in tokenize_pattern(pattern) if not isinstance(value, str)]
    return [(letter.translate(STAND_ALONE), width) for letter, width in fields]


def _order(pattern: str) -> str:
    """The letters of a pattern's numbers: ``Mdy`` of ``E, M/d/y``, but ``dy`` of ``d MMMM y``."""
    return "".join(letter for letter, width in _fields(pattern) if letter in "dMy" and width < 3)


def _numbering_systems(locale: Locale) -> list[str]:
    """Latin digits, which everybody writes, and the locale's own where it has them."""
    native = {locale.default_numbering_system, locale.other_numbering_systems.get("native", "latn")}
    return sorted(native & ZEROS.keys() | {"latn"})


def _digits(system: str) -> dict[int, str]:
    return {ord("0") + digit: chr(ZEROS[system] + digit) for digit in range(10)}

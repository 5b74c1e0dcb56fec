"""``dates``: from dates as people write them all over the world to ISO 8601."""

from calendar import isleap, monthrange
from collections.abc import Sequence
from datetime import date, timedelta
from functools import cache
from itertools import cycle, islice
from random import Random
from typing import Annotated, ClassVar, Final

from pydantic import Field

from seqloom.registry import Count, Share, register
from seqloom.tasks.base import Pair, Part, Task
from seqloom.tasks.date_writer import DateWriter
from seqloom.tasks.noise import add_noise

LOCALES: Final = (
    *("en_US", "en_GB", "en_CA", "en_ZA", "de_DE", "nl_NL", "sv_SE", "da_DK"),
    *("fr_FR", "fr_CA", "es_ES", "it_IT", "pt_BR", "ro_RO"),
    *("pl_PL", "cs_CZ", "hr_HR", "lt_LT", "lv_LV", "ru_RU", "uk_UA", "bg_BG"),
    *("fi_FI", "hu_HU", "tr_TR", "el_GR", "he_IL", "ar_EG", "fa_IR"),
    *("hi_IN", "mr_IN", "ne_NP", "bn_BD", "th_TH", "my_MM", "vi_VN", "zh_CN", "ja_JP", "ko_KR"),
)
"""The default locales: 39, in 11 scripts."""

Locales = Annotated[tuple[str, ...], Field(min_length=1)]


class IsoDate:
    """The grammar of the task's answers, as an automaton over characters: ``2024-02-29``, and no 30th.

    A text stands where its own characters are; only that what can go on alike stands in one place: all leap years in
    2000 and all others in 2001, months in the first of as many days.
    """

    start = ""

    def follow(self, place: str, character: str) -> str | None:
        """Where a text stands after one more character; None if no date of the task begins so."""
        text = place + character
        if text not in beginnings():
            return None
        if len(text) == len("2000"):
            return "2000" if isleap(int(text)) else "2001"
        if len(text) == len("2000-01"):
            days = monthrange(int(text[:4]), int(text[5:]))[1]
            return text[:5] + {31: "01", 30: "04"}.get(days, "02")
        return text

    def complete(self, place: str) -> bool:
        """Whether it is a whole date."""
        return len(place) == len("2000-01-01")


@register("task", "dates")
class Dates(Task):
    """Dates as people write them in 39 locales, to ISO 8601.

    ``en_US 1/2/2024`` is ``2024-01-02``, and ``en_GB 1/2/2024`` is ``2024-02-01``. The patterns and names are CLDR's,
    by babel: all of a locale's that hold day, month and year in the Gregorian calendar, the year always in full, with
    Latin digits and with the locale's own; then people's noise. The days from 1900 to 2099 are dealt out once for all
    to training (80 %), development and test (10 % each), so none is in two of them, whatever the locale, the sizes or
    the seed.

    seed: of everything random.
    train, dev, test: how many pairs there are.
    locales: as babel names them.
    noise: the chance of each kind of noise (capitals or none; spaces missing, extra or plain instead of non-breaking;
        missing dots; missing commas).
    """

    grammar: ClassVar[IsoDate] = IsoDate()

    def __init__(
        self,
        *,
        seed: int = 1,
        train: Count = 60_000,
        dev: Count = 500,
        test: Count = 1_000,
        locales: Locales = LOCALES,
        noise: Share = 0.15,
    ) -> None:
        self.seed, self.noise = seed, noise
        self.sizes: dict[Part, int] = {"train": train, "dev": dev, "test": test}
        self.writers = [DateWriter(name) for name in locales]

    def pairs(self, part: Part) -> list[Pair]:
        random = Random(f"{part} {self.seed}")
        return written(deal()[part], self.sizes[part], writers=self.writers, noise=self.noise, random=random)


@cache
def deal() -> dict[Part, list[date]]:
    """The days of two centuries for training, development and test: every day in one of them, for good."""
    days = [date.fromordinal(n) for n in range(date(1900, 1, 1).toordinal(), date(2100, 1, 1).toordinal())]
    Random("every day in one of them").shuffle(days)
    tenth = len(days) // 10
    return {"train": days[2 * tenth :], "dev": days[tenth : 2 * tenth], "test": days[:tenth]}


@cache
def beginnings() -> frozenset[str]:
    """Of all years of the task, and of all days of the two that stand for the others."""
    days = [date(2000, 1, 1) + timedelta(n) for n in range(366 + 365)]
    whole = [*map(str, range(1900, 2100)), *(day.isoformat() for day in days)]
    return frozenset(text[:n] for text in whole for n in range(len(text) + 1))


def written(
    days: Sequence[date], size: int, *, writers: Sequence[DateWriter], noise: float, random: Random
) -> list[Pair]:
    """``size`` pairs: the days in a new order, over and over if need be, each by a writer drawn at random."""
    pairs = []
    for day in islice(cycle(random.sample(days, len(days))), size):
        writer = random.choice(writers)
        text = add_noise(writer.write(day, random), random, chance=noise)
        pairs.append((f"{writer.name} {text}", day.isoformat()))
    return pairs

"""``dates``: convert dates written in many locales to ISO 8601."""

from calendar import isleap, monthrange
from collections.abc import Sequence
from datetime import date, timedelta
from functools import cache
from itertools import cycle, islice
from random import Random
from typing import Annotated, ClassVar, Final

from pydantic import Field, PositiveInt

from seqloom.registry import Fraction, register
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
    """The grammar of the targets, as an automaton over characters: ``2024-02-29`` is valid, February 30 is not.

    A state is the prefix read so far, except that prefixes with the same continuations share a state: all leap years
    are state ``2000`` and all others ``2001``, and all months of a length are the first month of that length.
    """

    initial = ""

    def transition(self, state: str, character: str) -> str | None:
        """The state after one more character; None if no date of the task has this prefix."""
        text = state + character
        if text not in valid_prefixes():
            return None
        if len(text) == len("2000"):
            return "2000" if isleap(int(text)) else "2001"
        if len(text) == len("2000-01"):
            days = monthrange(int(text[:4]), int(text[5:]))[1]
            return text[:5] + {31: "01", 30: "04"}.get(days, "02")
        return text

    def is_final(self, state: str) -> bool:
        """Whether the text read so far is a complete date."""
        return len(state) == len("2000-01-01")


@register("task", "dates")
class Dates(Task):
    """Convert dates written in 39 locales to ISO 8601.

    ``en_US 1/2/2024`` → ``2024-01-02``, ``en_GB 1/2/2024`` → ``2024-02-01``. Patterns and names are those of CLDR,
    through babel: all patterns of a locale that contain day, month and year in the Gregorian calendar, with the full
    year, in Latin digits and in the locale's own. Typing noise is added to the sources. The days from 1900 to 2099
    are permanently divided into training (80 %), validation and test (10 % each), so no day is in two parts, whatever
    the locales, the sizes or the seed.

    seed: random seed of the data.
    train: number of training pairs.
    dev: number of validation pairs.
    test: number of test pairs.
    locales: names of the locales, as in babel.
    noise: probability of each kind of typing noise (upper or lower case; missing, extra or plain instead of
        non-breaking spaces; missing dots; missing commas).
    """

    grammar: ClassVar[IsoDate] = IsoDate()

    def __init__(
        self,
        *,
        seed: int = 1,
        train: PositiveInt = 60_000,
        dev: PositiveInt = 500,
        test: PositiveInt = 1_000,
        locales: Locales = LOCALES,
        noise: Fraction = 0.15,
    ) -> None:
        self.seed, self.noise = seed, noise
        self.sizes: dict[Part, int] = {"train": train, "dev": dev, "test": test}
        self.writers = [DateWriter(name) for name in locales]

    def pairs(self, part: Part) -> list[Pair]:
        random = Random(f"{part} {self.seed}")
        return make_pairs(split_days()[part], self.sizes[part], writers=self.writers, noise=self.noise, random=random)


@cache
def split_days() -> dict[Part, list[date]]:
    """The days of two centuries, permanently divided into training, validation and test days."""
    days = [date.fromordinal(n) for n in range(date(1900, 1, 1).toordinal(), date(2100, 1, 1).toordinal())]
    Random("every day in one of them").shuffle(days)
    tenth = len(days) // 10
    return {"train": days[2 * tenth :], "dev": days[tenth : 2 * tenth], "test": days[:tenth]}


@cache
def valid_prefixes() -> frozenset[str]:
    """All prefixes of the years of the task, and of the days of 2000 and 2001, which represent all other years."""
    days = [date(2000, 1, 1) + timedelta(n) for n in range(366 + 365)]
    texts = [*map(str, range(1900, 2100)), *(day.isoformat() for day in days)]
    return frozenset(text[:n] for text in texts for n in range(len(text) + 1))


def make_pairs(
    days: Sequence[date], size: int, *, writers: Sequence[DateWriter], noise: float, random: Random
) -> list[Pair]:
    """Make ``size`` pairs: the days in random order, repeated if necessary, each written in a random locale."""
    pairs = []
    for day in islice(cycle(random.sample(days, len(days))), size):
        writer = random.choice(writers)
        text = add_noise(writer.write(day, random), random, probability=noise)
        pairs.append((f"{writer.name} {text}", day.isoformat()))
    return pairs

"""Task ``dates``: sources follow CLDR and are unambiguous, and parts are disjoint."""

import itertools
import re
import unicodedata
from collections import Counter
from datetime import date, timedelta
from random import Random

import pytest
from babel import Locale
from babel.dates import format_date

from seqloom.errors import ConfigError, UnknownNameError
from seqloom.registry import build, get_class
from seqloom.tasks import Task
from seqloom.tasks.date_writer import ZEROS, DateWriter
from seqloom.tasks.dates import LOCALES, Dates
from seqloom.tasks.noise import NOISES, add_noise, typewriter

YEAR = [date(2024, 1, 1) + timedelta(n) for n in range(366)]


@pytest.fixture(scope="module")
def dates() -> Dates:
    return Dates(train=20_000)


@pytest.fixture(scope="module")
def clean() -> Dates:
    return Dates(train=5_000, noise=0.0)


def latin(text: str) -> str:
    """The text with every decimal digit replaced by the Latin digit of the same value."""
    return "".join(c if (value := unicodedata.decimal(c, None)) is None else str(value) for c in text)


def skeleton(text: str) -> str:
    """The part that noise can't change: the letters in one case, the numbers, and the gaps between them."""
    text = typewriter(text, Random()).upper().casefold()
    separated = re.sub(r"(?<=\d)[\s.,،]+(?=\d)", "|", text)
    return re.sub(r"[\s.,،]", "", separated)


def test_sizes_and_formats(dates):
    assert isinstance(dates, Task)
    assert get_class("task", "dates") is Dates
    assert (len(dates.train), len(dates.dev), len(dates.test)) == (20_000, 500, 1_000)
    for source, target in dates.train + dates.dev + dates.test:
        assert source == source.strip()
        assert 1900 <= date.fromisoformat(target).year <= 2099


def test_parts_have_no_day_in_common(dates):
    """Not even with other locales, seeds or sizes."""
    other = Dates(seed=2, train=60_000, dev=8_000, test=8_000, locales=("de_DE",))
    train = {target for task in (dates, other) for _, target in task.train}
    dev = {target for task in (dates, other) for _, target in task.dev}
    test = {target for task in (dates, other) for _, target in task.test}
    assert not train & dev
    assert not train & test
    assert not dev & test
    assert len({target for _, target in dates.test}) == 1_000


def test_data_depends_on_the_seed():
    first, again, other = (Dates(seed=seed, train=300, dev=5, test=50) for seed in (1, 1, 2))
    assert (first.train, first.dev, first.test) == (again.train, again.dev, again.test)
    assert not set(first.train) & set(other.train)
    longer = Dates(seed=1, train=400, dev=6, test=60)
    assert (longer.train[:300], longer.test[:50]) == (first.train, first.test)


def test_all_locales_and_scripts_occur(dates):
    count = Counter(source.split()[0] for source, _ in dates.train)
    assert set(count) == set(LOCALES)
    assert len(LOCALES) >= 20
    assert min(count.values()) > 0.7 * 20_000 / len(LOCALES)
    digits = {source[:5]: set() for source, _ in dates.train}
    for source, _ in dates.train:
        digits[source[:5]] |= {unicodedata.name(c).rsplit(" ", 2)[0] for c in source if c.isdecimal()}
    assert {name: found for name, found in digits.items() if found != {"DIGIT"}}.keys() == {
        "ar_EG", "fa_IR", "hi_IN", "mr_IN", "ne_NP", "bn_BD", "th_TH", "my_MM"
    }  # fmt: skip


def test_dates_equal_those_of_babel(clean):
    """Without noise, in Latin digits: babel formats the same CLDR patterns."""
    for source, target in clean.train:
        name, text = source.split(" ", 1)
        locale = Locale.parse(name)
        formats = [*locale.date_formats.values(), *locale.datetime_skeletons.values()]
        patterns = {
            re.sub("y+", "y", each.pattern) for each in formats if "y" in each.pattern and "d" in each.pattern
        }
        day = date.fromisoformat(target)
        assert latin(text) in {format_date(day, pattern, locale) for pattern in patterns}


def test_sources_contain_the_year_and_the_day(dates):
    for source, target in dates.train:
        day = date.fromisoformat(target)
        numbers = [int(number) for number in re.findall(r"\d+", source.split(" ", 1)[1])]
        assert day.year in numbers
        assert day.day in numbers
        assert len(numbers) <= 4  # Vietnamese weekdays are numbers, too


def test_noise_keeps_the_skeleton(clean):
    random = Random(0)
    made = Counter()
    for source, _ in clean.train:
        for noise in NOISES:
            noisy = noise(source, random)
            made[noise.__name__] += noisy != source
            assert skeleton(noisy) == skeleton(source)
        assert skeleton(add_noise(source, random, probability=0.7)) == skeleton(source)
    assert min(made[noise.__name__] for noise in NOISES) > 100


@pytest.mark.parametrize("name", LOCALES)
def test_patterns_of_a_locale_are_unambiguous(name):
    """For all patterns and all days of a year, no two days share a skeleton, so noise can't confuse them."""
    writer = DateWriter(name)
    assert len(writer.patterns) >= 4
    days: dict[str, date] = {}
    for pattern in writer.patterns:
        for day in YEAR:
            assert days.setdefault(skeleton(pattern.apply(day, writer.locale)), day) == day


def test_equal_sources_have_equal_targets(dates):
    targets: dict[str, str] = {}
    for source, target in [*dates.train, *Dates(seed=2, train=40_000, noise=0.6).train]:
        assert targets.setdefault(source, target) == target


def test_order_of_day_and_month_depends_on_the_locale():
    def variants(name: str, day: date) -> set[str]:
        return {DateWriter(name).write(day, Random(seed)) for seed in range(100)}

    assert "2/1/2024" in variants("en_US", date(2024, 2, 1))
    assert "2/1/2024" in variants("en_CA", date(2024, 1, 2))


def test_zeros_start_the_decimal_digits_of_unicode():
    for zero in ZEROS.values():
        assert [unicodedata.decimal(chr(zero + n)) for n in range(10)] == list(range(10))


def test_invalid_options_are_rejected():
    with pytest.raises(UnknownNameError, match=r"unknown locale 'de-DE'.*de"):
        build("task", {"name": "dates", "locales": ["de-DE"]})
    with pytest.raises(ConfigError, match="mt"):
        build("task", {"name": "dates", "locales": ["mt"]})
    with pytest.raises(ConfigError, match="locales"):
        build("task", {"name": "dates", "locales": []})
    with pytest.raises(ConfigError, match="noise"):
        build("task", {"name": "dates", "noise": 1.5})


@pytest.mark.parametrize("year", [1900, 2000, 2023, 2024, 2099])
def test_grammar_accepts_exactly_the_days_of_a_year(year):
    """For all texts ``YYYY-MM-DD`` of a year, with months 0 to 13 and days 0 to 32."""
    for month, day in itertools.product(range(14), range(33)):
        text = f"{year}-{month:02}-{day:02}"
        try:
            date.fromisoformat(text)
        except ValueError:
            assert not accepted_by_grammar(text)
        else:
            assert accepted_by_grammar(text)
            assert not any(accepted_by_grammar(text[:n]) for n in range(len(text)))
            assert not accepted_by_grammar(text + "0")


@pytest.mark.parametrize("text", ["1899-12-31", "2100-01-01", "20240101", "2024-1-01", "2024/01/01", "٢٠٢٤-01-01"])
def test_grammar_rejects_other_years_and_formats(text):
    assert not accepted_by_grammar(text)


def accepted_by_grammar(text: str) -> bool:
    state: str | None = Dates.grammar.initial
    for character in text:
        state = None if state is None else Dates.grammar.transition(state, character)
    return state is not None and Dates.grammar.is_final(state)

"""Small data sets of ``defaults.py``: generated ones of different kinds, and parts of public corpora."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from seqloom.registry import build

Pair = tuple[str, str]
HELD_OUT = 250
"""Number of validation pairs, and of test pairs; fewer for small corpora."""


class DataSet(NamedTuple):
    """Training, validation and test pairs, and the test metric."""

    name: str
    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    metric: str


def generated(name: str, draw: Callable[[Random], Pair], count: int, metric: str = "exact_match") -> DataSet:
    """Draw pairs with distinct sources, and split them into three parts."""
    random, pairs = Random(name), dict[str, str]()
    while len(pairs) < count + 2 * HELD_OUT:
        source, target = draw(random)
        pairs.setdefault(source, target)
    return split(name, list(pairs.items()), count, metric)


def split(name: str, pairs: list[Pair], count: int, metric: str) -> DataSet:
    """Split pairs: the first ``count`` for training, then up to ``HELD_OUT`` each for validation and test."""
    held_out = min(HELD_OUT, (len(pairs) - count) // 2)
    ends = (count, count + held_out, count + 2 * held_out)
    return DataSet(name, pairs[: ends[0]], pairs[ends[0] : ends[1]], pairs[ends[1] : ends[2]], metric)


def inflection(random: Random) -> Pair:
    """Inflect an invented verb: infinitive and features to a form; a separable verb gives two words."""
    stem = "".join(random.choice(("b", "d", "f", "gr", "k", "l", "m", "n", "r", "schl", "t", "w")) for _ in "a")
    for _ in range(random.choice((1, 1, 2))):
        stem += random.choice("aeiou") + random.choice(("b", "d", "ck", "l", "mm", "n", "r", "ss", "t", "rk"))
    particle = random.choice(("",) * 8 + ("ab", "auf", "um"))
    person = random.choice(("1;SG", "2;SG", "3;SG", "1;PL", "2;PL"))
    link = "e" if stem[-1] in "dt" else ""
    past = random.random() < 0.5
    endings = {"1;SG": "e", "2;SG": f"{link}st", "3;SG": f"{link}t", "1;PL": "en", "2;PL": f"{link}t"}
    pasts = {"1;SG": "te", "2;SG": "test", "3;SG": "te", "1;PL": "ten", "2;PL": "tet"}
    form = stem + (link + pasts[person] if past else endings[person])
    features = f"V;{'PST' if past else 'PRS'};{person}"
    return f"{particle}{stem}en {features}", f"{form} {particle}".strip()


def commands(random: Random) -> Pair:
    """Translate commands to actions, as in SCAN: the target is often much longer than the source."""
    turns = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}

    def phrase() -> tuple[str, list[str]]:
        verb = random.choice(("walk", "run", "jump", "look"))
        words, acts = verb, [f"I_{verb.upper()}"]
        if random.random() < 0.7:
            way = random.choice(("left", "right"))
            how = random.choice(("", "opposite ", "around "))
            acts = {"": [turns[way], *acts], "opposite ": [turns[way]] * 2 + acts}.get(how, [turns[way], *acts] * 4)
            words = f"{verb} {how}{way}"
        if random.random() < 0.6:
            times = random.choice((("twice", 2), ("thrice", 3)))
            words, acts = f"{words} {times[0]}", acts * times[1]
        return words, acts

    words, acts = phrase()
    if random.random() < 0.7:
        join, (others, more) = random.choice(("and", "after")), phrase()
        words, acts = f"{words} {join} {others}", (acts + more if join == "and" else more + acts)
    return words, " ".join(acts)


def query(random: Random) -> Pair:
    """Translate a question to an SQL query, which is two to three times as long."""
    columns = {"population": "city", "area": "city", "length": "river", "depth": "lake", "height": "mountain"}
    states = ("texas", "ohio", "utah", "maine", "iowa", "nevada", "oregon", "kansas", "alaska", "idaho")
    column, state, number = (
        random.choice(list(columns)),
        random.choice(states),
        random.choice((50, 100, 200, 500, 900)),
    )
    table, more = columns[column], random.choice((">", "<"))
    word = {">": "more", "<": "less"}[more]
    shape = random.randrange(4)
    if shape == 0:
        return (
            f"{table} in {state} with {column} {word} than {number}",
            f"SELECT {table} . name FROM {table} WHERE {table} . state = ' {state} ' AND "
            f"{table} . {column} {more} {number}",
        )
    other = random.choice([s for s in states if s != state])
    if shape == 1:
        return (
            f"how many have {column} {word} than {number} in {state} or {other}",
            f"SELECT COUNT ( {table} . name ) FROM {table} WHERE {table} . {column} {more} {number} AND "
            f"{table} . state IN ( ' {state} ' , ' {other} ' )",
        )
    best = random.choice(("largest", "smallest"))
    order = {"largest": "DESC", "smallest": "ASC"}[best]
    if shape == 2:
        return (
            f"{table} of {best} {column} in {state} above {number}",
            f"SELECT {table} . name FROM {table} WHERE {table} . state = ' {state} ' AND "
            f"{table} . {column} > {number} ORDER BY {table} . {column} {order} LIMIT 1",
        )
    return (
        f"{best} {column} of {state} and {other} {word} than {number}",
        f"SELECT {table} . {column} FROM {table} WHERE {table} . state = ' {state} ' OR "
        f"{table} . state = ' {other} ' HAVING {table} . {column} {more} {number} "
        f"ORDER BY {table} . {column} {order}",
    )


LEXICON = {
    "DET": ("the", "a", "every", "no", "some"),
    "ADJ": ("big", "old", "red", "quiet", "light", "cold", "round"),
    "NOUN": ("dog", "house", "light", "walk", "cook", "watch", "river", "teacher", "fish", "cold", "bank", "play"),
    "VERB": ("sees", "watch", "cook", "walk", "light", "fish", "play", "wants", "bank", "finds"),
    "ADP": ("in", "near", "with", "over"),
    "ADV": ("often", "never", "here"),
}  # fmt: skip


def tags(random: Random) -> Pair:
    """Tag a sentence with parts of speech; for many words, the tag depends on the context."""

    def noun_phrase() -> list[str]:
        return ["DET", *["ADJ"] * random.choice((0, 0, 1, 2)), "NOUN"] + (
            ["ADP", "DET", "NOUN"] if random.random() < 0.3 else []
        )

    kinds = [*noun_phrase(), *["ADV"] * (random.random() < 0.3), "VERB"]
    if random.random() < 0.8:
        kinds += noun_phrase()
    return " ".join(random.choice(LEXICON[kind]) for kind in kinds), " ".join(kinds)


ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """Spell a number in words: 342 → three hundred forty two."""
    if number >= 1000:
        return f"{in_words(number // 1000)} thousand" + (f" {in_words(number % 1000)}" if number % 1000 else "")
    if number >= 100:
        return f"{ONES[number // 100]} hundred" + (f" {in_words(number % 100)}" if number % 100 else "")
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")


def arithmetic(random: Random) -> Pair:
    """Compute a sum: words to digits."""
    a, b = random.randrange(1000), random.randrange(10)
    return f"{in_words(a)} plus {in_words(b)}", str(a + b)


def numbers(random: Random) -> Pair:
    """Spell a number: digits to words."""
    number = random.randrange(1_000_000)
    return str(number), in_words(number)


def dates(count: int) -> DataSet:
    """Task ``dates``, in three locales."""
    task = build(
        "task",
        {"name": "dates", "train": count, "dev": HELD_OUT, "test": HELD_OUT, "locales": ("en_US", "en_GB", "de_DE")},
    )
    return DataSet("dates", task.train, task.dev, task.test, "exact_match")


def lines(path: Path) -> list[str]:
    """Read the lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def public(data: Path) -> Iterator[DataSet]:
    """Parts of the public corpora in the data directory."""
    words = [[tuple(line.split("\t")) for line in lines(data / f"g2p/fre_{p}.tsv")] for p in ("train", "dev", "test")]
    Random(1).shuffle(words[0])
    yield DataSet("g2p", words[0][:2000], words[1][:HELD_OUT], words[2], "exact_match")
    pairs = list(zip(lines(data / "multi30k/train.de"), lines(data / "multi30k/train.en"), strict=True))
    short = [pair for pair in pairs if len(pair[0].split()) <= 9]
    Random(1).shuffle(short)
    yield split("translation", short[:2500], 2000, "bleu")
    code = list(zip(lines(data / "code/django/all.anno"), lines(data / "code/django/all.code"), strict=True))
    code = [(a.strip(), c.strip()) for a, c in code if a.strip() and c.strip() and len(c.split()) <= 15]
    Random(1).shuffle(code)
    yield split("django", list(dict(code[:4000]).items())[:2500], 2000, "bleu")


def data_sets(data: Path | None = None) -> list[DataSet]:
    """All data sets; only the generated ones without a data directory."""
    return [
        generated("inflection", inflection, 800),
        generated("commands", commands, 800),
        generated("query", query, 800),
        generated("tags", tags, 1000),
        generated("arithmetic", arithmetic, 1000),
        generated("numbers", numbers, 1000),
        dates(1000),
        *(public(data) if data else ()),
    ]


def write(data_set: DataSet, folder: Path) -> dict[str, Path]:
    """Write the three parts as JSONL files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for part in ("train", "dev", "test"):
        files[part] = folder / f"{part}.jsonl"
        rows = (json.dumps({"source": s, "target": t}, ensure_ascii=False) for s, t in getattr(data_set, part))
        files[part].write_text("\n".join(rows) + "\n", encoding="utf-8")
    return files

"""Letters in alphabetical order."""

from itertools import count, islice
from random import Random
from zlib import crc32

from seqloom import register
from seqloom.registry import Count
from seqloom.tasks import Task


@register("task", "sorting")
class Sorting(Task):
    """A few letters, to be written in alphabetical order; a hash of the letters decides the part they are in.

    seed: of everything random.
    train, dev, test: how many pairs there are.
    """

    def __init__(self, *, seed: int = 1, train: Count = 1000, dev: Count = 100, test: Count = 100):
        self.train, self.dev, self.test = (
            list(islice(pairs(Random(f"{part} {seed}"), part), size)) for part, size in enumerate((train, dev, test))
        )


def pairs(random, part):
    for _ in count():
        letters = random.choices("abcdefgh", k=random.randint(2, 6))
        if min(crc32("".join(letters).encode()) % 4, 2) == part:
            yield " ".join(letters), " ".join(sorted(letters))

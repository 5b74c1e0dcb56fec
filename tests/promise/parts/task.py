"""Letters in alphabetical order."""

from random import Random
from typing import ClassVar

from seqloom import register
from seqloom.registry import Count
from seqloom.tasks.base import Task, draw_pairs


@register("task", "sorting")
class Sorting(Task):
    """A few letters, to be written in alphabetical order.

    train, dev, test: number of pairs of each part.
    seed: of everything random.
    """

    fields: ClassVar = {"source": "symbols", "target": "symbols"}

    def __init__(self, *, train: Count = 1000, dev: Count = 100, test: Count = 100, seed: int = 1):
        self.sizes = {"train": train, "dev": dev, "test": test}
        self.seed = seed

    def pairs(self, part):
        return draw_pairs(letters, part, size=self.sizes[part], seed=self.seed)


def letters(random: Random):
    drawn = random.choices("abcdefgh", k=random.randint(2, 6))
    return " ".join(drawn), " ".join(sorted(drawn))

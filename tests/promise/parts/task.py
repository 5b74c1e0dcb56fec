"""Sort letters alphabetically."""

from random import Random
from typing import ClassVar

from pydantic import PositiveInt

from seqloom import register
from seqloom.tasks.base import Task, draw_pairs


@register("task", "sorting")
class Sorting(Task):
    """Sort a few letters alphabetically.

    train: number of training pairs.
    dev: number of validation pairs.
    test: number of test pairs.
    seed: random seed of the data.
    """

    fields: ClassVar = {"source": "whitespace", "target": "whitespace"}

    def __init__(self, *, train: PositiveInt = 1000, dev: PositiveInt = 100, test: PositiveInt = 100, seed: int = 1):
        self.sizes = {"train": train, "dev": dev, "test": test}
        self.seed = seed

    def pairs(self, part):
        return draw_pairs(letters, part, size=self.sizes[part], seed=self.seed)


def letters(random: Random):
    drawn = random.choices("abcdefgh", k=random.randint(2, 6))
    return " ".join(drawn), " ".join(sorted(drawn))

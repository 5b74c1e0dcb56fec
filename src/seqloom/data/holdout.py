"""A part of the training data, held out to judge by."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqloom.data.examples import Empty, Example, Examples, Pairs, Skipped
from seqloom.errors import InputError

SHARE = 0.05
MOST = 1000
LEAST = 2


@dataclass(frozen=True)
class TrainSplit:
    """All examples but those held out; can be read any number of times."""

    examples: Examples
    held: frozenset[int]
    once = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that they are in."""
        return self.examples.paths

    def check(self) -> None:
        """They have been read already."""

    def read(self, *, empty: Empty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """All of them in order."""
        found = self.examples.read(empty=empty, skipped=skipped)
        return (example for number, example in enumerate(found) if number not in self.held)


def hold_out(
    examples: Examples, *, seed: int, empty: Empty = "skip", skipped: Skipped | None = None
) -> tuple[TrainSplit, list[Example]]:
    """What is left to train on, and what is held out: 5 % of the examples drawn at random, at most 1,000.

    What can be read only once (standard input, a pipe) is held in memory, and what is left out of it ``skipped``.
    """
    if examples.once:
        examples = Pairs(list(examples.read(empty=empty, skipped=skipped)))
    total = sum(1 for _ in examples.read(empty=empty))
    if total < 2 * LEAST:
        raise InputError(f"{total} pairs are too few to hold some out: give a dev set, or more of them")
    count = min(max(int(SHARE * total), LEAST), MOST)
    random = np.random.Generator(np.random.Philox(seed))
    held = frozenset(random.choice(total, count, replace=False).tolist())
    dev = [example for number, example in enumerate(examples.read(empty=empty)) if number in held]
    return TrainSplit(examples, held), dev

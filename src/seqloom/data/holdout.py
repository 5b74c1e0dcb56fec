"""A part of the training data, held out to judge by."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from seqloom.data.readers import Empty, Example, Files, Skipped, read
from seqloom.errors import InputError

SHARE = 0.05
MOST = 1000
LEAST = 2


@dataclass(frozen=True)
class WithoutHeldOut:
    """All examples but those held out; can be read any number of times."""

    examples: Files | Sequence[Example]
    held: frozenset[int]
    empty: Empty

    def __iter__(self) -> Iterator[Example]:
        return self.read()

    def read(self, skipped: Skipped | None = None) -> Iterator[Example]:
        """All of them; what has an empty side is counted."""
        files = self.examples
        found: Iterable[Example] = (
            read(files, empty=self.empty, skipped=skipped) if isinstance(files, Files) else files
        )
        return (example for number, example in enumerate(found) if number not in self.held)


def hold_out(
    examples: Files | Sequence[Example], *, seed: int, empty: Empty = "skip", skipped: Skipped | None = None
) -> tuple[WithoutHeldOut, list[Example]]:
    """What is left to train on, and what is held out: 5 % of the examples drawn at random, at most 1,000.

    What can be read only once (standard input, a pipe) is held in memory, and what is left out of it ``skipped``.
    """
    if isinstance(examples, Files) and examples.once:
        examples = list(read(examples, empty=empty, skipped=skipped))
    found: Iterable[Example] = read(examples, empty=empty) if isinstance(examples, Files) else examples
    total = sum(1 for _ in found)
    if total < 2 * LEAST:
        raise InputError(f"{total} pairs are too few to hold some out: give a dev set, or more of them")
    count = min(max(int(SHARE * total), LEAST), MOST)
    random = np.random.Generator(np.random.Philox(seed))
    held = frozenset(random.choice(total, count, replace=False).tolist())
    found = read(examples, empty=empty) if isinstance(examples, Files) else examples
    dev = [example for number, example in enumerate(found) if number in held]
    return WithoutHeldOut(examples, held, empty), dev

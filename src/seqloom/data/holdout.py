"""A validation set held out from the training data."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqloom.data.examples import Example, Examples, OnEmpty, Pairs, Skipped
from seqloom.errors import InputError

HELD_OUT_FRACTION = 0.05
MAX_HELD_OUT = 1000
MIN_HELD_OUT = 2


@dataclass(frozen=True)
class TrainSplit:
    """All examples except those held out. It can be read any number of times."""

    examples: Examples
    held_out: frozenset[int]
    once = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that hold the examples."""
        return self.examples.paths

    def check(self) -> None:
        """Do nothing: the examples have already been read."""

    def read(self, *, on_empty: OnEmpty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """Iterate over the training examples in order."""
        examples = self.examples.read(on_empty=on_empty, skipped=skipped)
        return (example for number, example in enumerate(examples) if number not in self.held_out)


def hold_out(
    examples: Examples, *, seed: int, on_empty: OnEmpty = "skip", skipped: Skipped | None = None
) -> tuple[TrainSplit, list[Example]]:
    """Split off a random 5 % of the examples, at most 1,000, as the validation set.

    Data that can be read only once (standard input, a pipe) is loaded into memory; ``skipped`` counts what is skipped
    while loading it.

    Returns the training split and the validation examples.
    """
    if examples.once:
        examples = Pairs(list(examples.read(on_empty=on_empty, skipped=skipped)))
    total = sum(1 for _ in examples.read(on_empty=on_empty))
    if total < 2 * MIN_HELD_OUT:
        raise InputError(
            f"{total} pairs are too few to hold out a validation set: give one (--dev), or at least "
            f"{2 * MIN_HELD_OUT} training pairs"
        )
    count = min(max(int(HELD_OUT_FRACTION * total), MIN_HELD_OUT), MAX_HELD_OUT)
    random = np.random.Generator(np.random.Philox(seed))
    held_out = frozenset(random.choice(total, count, replace=False).tolist())
    dev = [example for number, example in enumerate(examples.read(on_empty=on_empty)) if number in held_out]
    return TrainSplit(examples, held_out), dev

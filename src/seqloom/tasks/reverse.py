"""``reverse``: reverse a random string."""

from collections.abc import Sequence

from seqloom.registry import register
from seqloom.tasks.copy import Copy


@register("task", "reverse")
class Reverse(Copy):
    """Reverse a random string.

    ``kqae`` → ``eaqk``. Lengths and characters are drawn uniformly.

    seed: random seed of the data.
    train: number of training pairs.
    dev: number of validation pairs.
    test: number of test pairs.
    shortest: minimum length of a string, in characters.
    longest: maximum length of a string, in characters.
    alphabet: characters to draw from.
    """

    def order(self, tokens: Sequence[str]) -> list[int]:
        return list(reversed(range(len(tokens))))

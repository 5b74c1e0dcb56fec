"""``reverse``: a random string backwards."""

from collections.abc import Sequence

from seqloom.registry import register
from seqloom.tasks.copy import Copy


@register("task", "reverse")
class Reverse(Copy):
    """Random strings, to be written backwards.

    ``kqae`` is ``eaqk``. Lengths and characters are drawn uniformly.

    seed: of everything random.
    train, dev, test: how many pairs there are.
    shortest, longest: how many characters a string has.
    alphabet: the characters to draw from.
    """

    def order(self, tokens: Sequence[str]) -> list[int]:
        return list(reversed(range(len(tokens))))

"""``copy``: a random string as it is."""

from collections.abc import Sequence
from random import Random
from string import ascii_lowercase
from typing import Annotated

from pydantic import Field

from seqloom.errors import OptionError
from seqloom.registry import Count, register
from seqloom.tasks.permutation import Permutation

Alphabet = Annotated[str, Field(pattern=r"^\S+$")]


@register("task", "copy")
class Copy(Permutation):
    """Random strings, to be copied.

    ``kqae`` is ``kqae``. Lengths and characters are drawn uniformly.

    seed: of everything random.
    train, dev, test: how many pairs there are.
    shortest, longest: how many characters a string has.
    alphabet: the characters to draw from.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        train: Count = 10_000,
        dev: Count = 500,
        test: Count = 1_000,
        shortest: Count = 5,
        longest: Count = 15,
        alphabet: Alphabet = ascii_lowercase,
    ) -> None:
        if shortest > longest:
            raise OptionError(f"shortest={shortest} is greater than longest={longest}: no string has such a length")
        super().__init__(seed=seed, train=train, dev=dev, test=test)
        self.shortest, self.longest, self.alphabet = shortest, longest, alphabet

    def draw(self, random: Random) -> list[str]:
        return random.choices(self.alphabet, k=random.randint(self.shortest, self.longest))

    def order(self, tokens: Sequence[str]) -> list[int]:
        return list(range(len(tokens)))

"""``copy``: copy a random string."""

from collections.abc import Sequence
from random import Random
from string import ascii_lowercase
from typing import Annotated

from pydantic import Field, PositiveInt

from seqloom.errors import ConfigError
from seqloom.registry import register
from seqloom.tasks.permutation import Permutation

Alphabet = Annotated[str, Field(pattern=r"^\S+$")]


@register("task", "copy")
class Copy(Permutation):
    """Copy a random string.

    ``kqae`` → ``kqae``. Lengths and characters are drawn uniformly.

    seed: random seed of the data.
    train: number of training pairs.
    dev: number of validation pairs.
    test: number of test pairs.
    shortest: minimum length of a string, in characters.
    longest: maximum length of a string, in characters.
    alphabet: characters to draw from.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        train: PositiveInt = 10_000,
        dev: PositiveInt = 500,
        test: PositiveInt = 1_000,
        shortest: PositiveInt = 5,
        longest: PositiveInt = 15,
        alphabet: Alphabet = ascii_lowercase,
    ) -> None:
        if shortest > longest:
            raise ConfigError(
                f"shortest={shortest} is greater than longest={longest}: decrease shortest or increase longest"
            )
        super().__init__(seed=seed, train=train, dev=dev, test=test)
        self.shortest, self.longest, self.alphabet = shortest, longest, alphabet

    def draw(self, random: Random) -> list[str]:
        return random.choices(self.alphabet, k=random.randint(self.shortest, self.longest))

    def order(self, tokens: Sequence[str]) -> list[int]:
        return list(range(len(tokens)))

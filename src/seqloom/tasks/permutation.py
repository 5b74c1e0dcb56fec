"""Tasks whose target is a permutation of the source, so that the true alignment is known."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from seqloom.tasks.base import Pair, Part, Task, draw_pairs


class Permutation(Task):
    """Random sequences and a reordering that depends on their tokens.

    A subclass implements ``draw`` and ``order``.
    """

    separator: ClassVar[str] = ""
    """String between two tokens."""

    def __init__(self, *, seed: int, train: int, dev: int, test: int) -> None:
        self.seed = seed
        self.sizes: dict[Part, int] = {"train": train, "dev": dev, "test": test}

    def draw(self, random: Random) -> list[str]:
        """Draw the tokens of a random source."""
        raise NotImplementedError

    def order(self, tokens: Sequence[str]) -> list[int]:
        """The source positions of the target tokens, in target order."""
        raise NotImplementedError

    def pairs(self, part: Part) -> list[Pair]:
        def pair(random: Random) -> Pair:
            tokens = self.draw(random)
            return self.separator.join(tokens), self.separator.join(tokens[n] for n in self.order(tokens))

        return draw_pairs(pair, part, size=self.sizes[part], seed=self.seed)

    def alignment(self, source: str, target: str) -> list[int]:
        return self.order(source.split(self.separator) if self.separator else list(source))

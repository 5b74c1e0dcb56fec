"""Tasks whose targets are their sources in another order, so that the true alignment is known."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from seqloom.tasks.base import Pair, Part, Task, draw_pairs


class Permutation(Task):
    """Random sequences, to be put in an order that depends on what they hold.

    A subclass implements ``draw`` and ``order``.
    """

    separator: ClassVar[str] = ""
    """What stands between two tokens."""

    def __init__(self, *, seed: int, train: int, dev: int, test: int) -> None:
        self.seed = seed
        self.sizes: dict[Part, int] = {"train": train, "dev": dev, "test": test}

    def draw(self, random: Random) -> list[str]:
        """The tokens of a random source."""
        raise NotImplementedError

    def order(self, tokens: Sequence[str]) -> list[int]:
        """The positions of the source's tokens in the order of the target."""
        raise NotImplementedError

    def pairs(self, part: Part) -> list[Pair]:
        def pair(random: Random) -> Pair:
            tokens = self.draw(random)
            return self.separator.join(tokens), self.separator.join(tokens[n] for n in self.order(tokens))

        return draw_pairs(pair, part, size=self.sizes[part], seed=self.seed)

    def alignment(self, source: str, target: str) -> list[int]:
        return self.order(source.split(self.separator) if self.separator else list(source))

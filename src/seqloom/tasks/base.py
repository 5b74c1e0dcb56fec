"""What a task is: examples to learn from, the fields that suit them, and the metric that judges them."""

from collections.abc import Callable, Mapping
from functools import cached_property
from random import Random
from typing import ClassVar, Final, Literal
from zlib import crc32

from seqloom.errors import OptionError
from seqloom.registry import Spec

Pair = tuple[str, str]
"""A source and its target."""
Part = Literal["train", "dev", "test"]

DRAWS: Final = 1000
"""How many pairs are drawn to find one of a part, before we give up."""


class Task:
    """Pairs of source and target for training, validation and test, the same for the same options.

    A subclass implements ``pairs``. No source is in two parts.

    fields: the tokenizers of source and target that a run uses by default.
    metric: the metric that selects the best weights by default.
    """

    fields: ClassVar[Mapping[str, Spec]] = {"source": "character", "target": "character"}
    metric: ClassVar[Spec] = "exact"

    def pairs(self, part: Part) -> list[Pair]:
        """All pairs of a part."""
        raise NotImplementedError

    def alignment(self, source: str, target: str) -> list[int] | None:
        """For each target token, the position of the source token it comes from; None if the task doesn't know."""
        return None

    @cached_property
    def train(self) -> list[Pair]:
        """The training set."""
        return self.pairs("train")

    @cached_property
    def dev(self) -> list[Pair]:
        """The validation set."""
        return self.pairs("dev")

    @cached_property
    def test(self) -> list[Pair]:
        """The test set."""
        return self.pairs("test")


def draw_pairs(draw: Callable[[Random], Pair], part: Part, *, size: int, seed: int) -> list[Pair]:
    """``size`` random pairs of a part; ``part_of`` their sources keeps the parts disjoint."""
    random = Random(f"{part} {seed}")
    pairs: list[Pair] = []
    for _ in range(size):
        drawn = (draw(random) for _ in range(DRAWS))
        pair = next((pair for pair in drawn if part_of(pair[0]) == part), None)
        if pair is None:
            raise OptionError(f"there is hardly a source for the {part} set: allow longer ones, or more symbols")
        pairs.append(pair)
    return pairs


def part_of(source: str) -> Part:
    """The part that a source belongs to, by its checksum: 10 % each are for validation and test.

    It depends on nothing else, so a model trained with one seed or size can be tested with another.
    """
    parts: dict[int, Part] = {0: "dev", 1: "test"}
    return parts.get(crc32(source.encode()) % 10, "train")

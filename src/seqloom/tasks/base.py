"""The base class of tasks: a dataset, its default tokenizers, and its validation metric."""

from collections.abc import Callable, Mapping
from functools import cached_property
from random import Random
from typing import ClassVar, Final, Literal
from zlib import crc32

from seqloom.errors import ConfigError
from seqloom.registry import Spec

Pair = tuple[str, str]
"""A source and its target."""
Part = Literal["train", "dev", "test"]

MAX_DRAWS: Final = 1000
"""Maximum number of pairs drawn to find one that belongs to a part."""


class Task:
    """A dataset of (source, target) pairs: training, validation and test set. The same options give the same data.

    A subclass implements ``pairs``. No source occurs in two parts.

    fields: default tokenizers of source and target.
    metric: default validation metric, which selects the best checkpoint.
    """

    fields: ClassVar[Mapping[str, Spec]] = {"source": "character", "target": "character"}
    metric: ClassVar[Spec] = "exact_match"

    def pairs(self, part: Part) -> list[Pair]:
        """All pairs of a part of the dataset."""
        raise NotImplementedError

    def alignment(self, source: str, target: str) -> list[int] | None:
        """The position of the source token that each target token comes from; None if it is unknown."""
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
    """Draw ``size`` random pairs of a part. ``part_of`` assigns each source to one part, so parts are disjoint."""
    random = Random(f"{part} {seed}")
    pairs: list[Pair] = []
    for _ in range(size):
        drawn = (draw(random) for _ in range(MAX_DRAWS))
        pair = next((pair for pair in drawn if part_of(pair[0]) == part), None)
        if pair is None:
            raise ConfigError(
                f"the task has too few different sources for the {part} set: allow longer sources, or more symbols"
            )
        pairs.append(pair)
    return pairs


def part_of(source: str) -> Part:
    """Assign a source to a part by its checksum: 10 % of the sources each are for validation and test.

    The part depends on nothing else, so a model trained with one seed or size can be tested with another.
    """
    parts: dict[int, Part] = {0: "dev", 1: "test"}
    return parts.get(crc32(source.encode()) % 10, "train")

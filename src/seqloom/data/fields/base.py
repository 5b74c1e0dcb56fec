"""What every field shares."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from seqloom.data.pad import Array


class Field(ABC):
    """What a column of the data is: how its values become arrays (steps, …) and values again.

    shape: of one step: ``()`` for tokens, ``(D,)`` for vectors.
    end_steps: how many steps at the end of a row mark only that it ends.
    """

    shape: ClassVar[tuple[int, ...]] = ()
    end_steps: int = 0

    @property
    @abstractmethod
    def dtype(self) -> "np.dtype[Any]":
        """Of the encoded numbers."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many symbols there are, or how many numbers a step has."""

    @abstractmethod
    def metrics(self, values: Sequence[Any]) -> tuple[str, ...]:
        """The metrics that suit such values as targets; the first one decides what is best."""

    @abstractmethod
    def fit(self, values: Iterable[Any]) -> None:
        """Learn from training values, which are read once and not kept."""

    @abstractmethod
    def encode(self, values: Sequence[Any], examples: Sequence[Mapping[str, Any]]) -> list[Array]:
        """An array (steps, …) for every value; ``examples`` hold their other columns."""

    @abstractmethod
    def decode(self, row: Array, example: Mapping[str, Any]) -> Any:
        """The value of a row."""

    @abstractmethod
    def show(self, row: Array) -> list[str]:
        """Each step, for people."""

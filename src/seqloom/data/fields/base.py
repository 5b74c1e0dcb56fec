"""What every field shares."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.data.pad import Array


class Field(ABC):
    """What a column of the data is: how its values become arrays (steps, …) and values again.

    A value is plain data, as a reader delivers it: a text, or lists of numbers. A field of a kind that marks the end
    of a sequence has an option ``end``, which is set for the target.

    shape: of one step: ``()`` for tokens, ``(D,)`` for vectors.
    end_steps: how many steps at the end of a row mark only that it ends.
    metric_options: what metrics have to overlook, as the field drops it: options for those that have them.
    """

    shape: tuple[int, ...] = ()
    end_steps: int = 0
    metric_options: Mapping[str, Any] = {}

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

    def state(self) -> dict[str, Any]:
        """What was learned, to be kept: arrays, and plain data that JSON can hold."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take up what ``state`` gave."""

    @property
    def symbols(self) -> int | None:
        """How many different steps there are; None: any number, as steps are real vectors."""
        return None if self.shape or not np.issubdtype(self.dtype, np.integer) else self.size

    def same(self, other: "Field") -> bool:
        """Whether both encode every value alike."""
        if type(self) is not type(other) or (self.shape, self.end_steps) != (other.shape, other.end_steps):
            return False
        mine, others = self.state(), other.state()
        return mine.keys() == others.keys() and all(np.array_equal(mine[key], others[key]) for key in mine)

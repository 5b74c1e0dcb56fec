"""The base class of fields."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.data.pad import Array


class Field(ABC):
    """The type of a data column: it encodes values as arrays (steps, …) and decodes them.

    A value is plain data from a reader: a text, or lists of numbers. If a kind of field can mark the end of a
    sequence, it has an option ``end``, which is set for the target.

    shape: shape of one step: ``()`` for tokens, ``(D,)`` for vectors.
    end_steps: number of steps at the end of a row that only mark the end, such as EOS.
    metric_options: options for metrics that have them, to ignore what the field discards, such as case.
    """

    shape: tuple[int, ...] = ()
    end_steps: int = 0
    metric_options: Mapping[str, Any] = {}

    @property
    @abstractmethod
    def dtype(self) -> "np.dtype[Any]":
        """Data type of the encoded values."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Vocabulary size, or number of values per step."""

    @abstractmethod
    def metrics(self, values: Sequence[Any]) -> tuple[str, ...]:
        """Default metrics for targets like these values; the first one is the validation metric."""

    @abstractmethod
    def fit(self, values: Iterable[Any]) -> None:
        """Fit the field on training values; they are read once and not kept."""

    @abstractmethod
    def encode(self, values: Sequence[Any], examples: Sequence[Mapping[str, Any]]) -> list[Array]:
        """Encode each value as an array (steps, …); ``examples`` holds the other columns of each example."""

    @abstractmethod
    def decode(self, row: Array, example: Mapping[str, Any]) -> Any:
        """Decode a row into a value."""

    @abstractmethod
    def show(self, row: Array) -> list[str]:
        """Each step of a row as readable text."""

    def state(self) -> dict[str, Any]:
        """Everything learned by ``fit``: arrays and JSON-serializable data."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Load a state returned by ``state``."""

    @property
    def symbols(self) -> int | None:
        """Number of distinct steps, i.e. the vocabulary size; None for vectors."""
        return None if self.shape or not np.issubdtype(self.dtype, np.integer) else self.size

    def same(self, other: "Field") -> bool:
        """Whether both fields encode every value identically."""
        if type(self) is not type(other) or (self.shape, self.end_steps) != (other.shape, other.end_steps):
            return False
        mine, others = self.state(), other.state()
        return mine.keys() == others.keys() and all(np.array_equal(mine[key], others[key]) for key in mine)

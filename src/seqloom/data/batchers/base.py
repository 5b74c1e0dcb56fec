"""The interface of batchers."""

from typing import Any, NamedTuple, Protocol

from seqloom.batch import Batch


class BatchSize(NamedTuple):
    """The maximum batch size: in steps of the longest field, padding included, in examples, or both."""

    tokens: int | None = None
    sentences: int | None = None


class Batcher(Protocol):
    """Splits a corpus into batches. It is constructed from a corpus, a ``BatchSize`` and a seed.

    An item of a plan is anything that ``collate`` can turn into a batch, e.g. the indices of its examples.
    """

    def plan(self, epoch: int) -> list[Any]:
        """All batches of an epoch, in order. They depend only on the seed and the epoch: all workers get the same."""

    def target_steps(self, item: Any) -> int:
        """Number of non-padding target steps of a batch."""

    def collate(self, item: Any) -> Batch:
        """Make the batch."""

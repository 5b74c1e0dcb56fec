"""What every batcher does."""

from typing import Any, NamedTuple, Protocol

from seqloom.batch import Batch


class BatchSize(NamedTuple):
    """How large a batch may be: in padded steps of its longest field, in examples, or both."""

    tokens: int | None = None
    sentences: int | None = None


class Batcher(Protocol):
    """How a corpus becomes batches. Made from a corpus, a ``BatchSize`` and a seed.

    An item of a plan is whatever ``collate`` makes a batch of, for example the indices of its examples.
    """

    def plan(self, epoch: int) -> list[Any]:
        """All batches of an epoch. Only the seed and the epoch decide them: they are the same for every worker."""

    def target_steps(self, item: Any) -> int:
        """How many real target steps a batch will have."""

    def collate(self, item: Any) -> Batch:
        """The batch itself."""

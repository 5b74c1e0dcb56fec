"""What an objective is."""

from typing import Any

from seqloom.batch import Batch
from seqloom.models.base import Autoregressive
from seqloom.nn.outputs import Loss


class Objective:
    """How a batch becomes a loss. Others say criterion."""

    def __call__(self, model: Autoregressive, batch: Batch, *, update: int, carry: Any = None) -> tuple[Loss, Any]:
        """The loss of a batch at an update, counted from 1, and what to carry over to the next batch.

        carry: what the batch before left, as plain data and tensors; None at the beginning of an epoch.
        """
        raise NotImplementedError

    def logged(self, update: int) -> dict[str, float]:
        """Numbers to log beside the loss."""
        return {}

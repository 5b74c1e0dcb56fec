"""The base class of training objectives."""

from typing import Any

from seqloom.batch import Batch
from seqloom.models.base import Autoregressive
from seqloom.nn.outputs import Loss


class Objective:
    """Computes the loss of a batch. Other toolkits call this a criterion."""

    def __call__(self, model: Autoregressive, batch: Batch, *, update: int, carry: Any = None) -> tuple[Loss, Any]:
        """The loss of a batch, and a state to carry over to the next batch.

        update: number of the update, counted from 1.
        carry: state from the previous batch, made of plain data and tensors; None at the start of an epoch.
        """
        raise NotImplementedError

    def logged(self, update: int) -> dict[str, float]:
        """Additional numbers to log with the loss."""
        return {}

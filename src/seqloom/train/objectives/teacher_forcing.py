"""Teacher forcing."""

from typing import Any

from seqloom.batch import Batch
from seqloom.models.base import Autoregressive
from seqloom.nn.outputs import Loss
from seqloom.registry import register
from seqloom.train.objectives.base import Objective


@register("objective", "teacher_forcing")
class TeacherForcing(Objective):
    """Teacher forcing: each time step is fed the previous reference token.

        loss = −Σ_t log p(y_t | y_1 … y_{t−1}, source)

    Williams and Zipser 1989.
    """

    def __call__(self, model: Autoregressive, batch: Batch, *, update: int, carry: Any = None) -> tuple[Loss, Any]:
        return model.loss(batch), None

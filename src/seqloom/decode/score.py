"""What a model thinks of a target that is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.decode.protocol import StepModel, check_in_use
from seqloom.errors import InputError


@dataclass(frozen=True, eq=False)
class Scored:
    """A batch of targets as a model sees them, END included.

    log_probs: B T, log p(y_t | y_1 … y_{t−1}, source); 0 where there is no y_t.
    mask: B T, True where real.
    correct: B T, whether y_t is the likeliest token at its place; False where there is none.
    """

    log_probs: Tensor
    mask: Tensor
    correct: Tensor

    @property
    def total(self) -> Tensor:
        """log p(y | source) of every target: what search reports as ``log_prob`` of the same tokens."""
        return self.log_probs.sum(1)


def score(model: StepModel[Any], batch: Batch | Sequence[Batch]) -> Scored:
    """The log-probability of every token of the batch's targets, by teacher forcing.

    batch: for an ensemble also one for each of its models, with the same targets.
    """
    check_in_use(model)
    first = batch if isinstance(batch, Batch) else batch[0]
    if first.target is None:
        raise InputError("there is nothing to score: this batch has no target")
    target_BT, mask_BT = first.target
    with torch.no_grad():
        log_probs, best, start = [], [], 0
        for log_probs_BtV in model.log_probs(first.target, model.encode(batch)):
            target_Bt = target_BT[:, start : start + log_probs_BtV.shape[1]]
            log_probs.append(log_probs_BtV.gather(2, target_Bt[..., None])[..., 0])
            best.append(log_probs_BtV.argmax(2))
            start += log_probs_BtV.shape[1]
        log_probs_BT = torch.cat(log_probs, 1).masked_fill(~mask_BT, 0)
        return Scored(log_probs_BT, mask_BT, (torch.cat(best, 1) == target_BT) & mask_BT)

"""Forced decoding: the log-probabilities that a model assigns to given targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.decode.protocol import StepModel, require_eval_mode
from seqloom.errors import InputError


@dataclass(frozen=True, eq=False)
class TokenScores:
    """The scores of a batch of targets by token, EOS included.

    log_probs: B T, log p(y_t | y_1 … y_{t−1}, source); 0 for padding.
    mask: B T, True for non-padding tokens.
    correct: B T, whether y_t is the most likely token at its position; False for padding.
    """

    log_probs: Tensor
    mask: Tensor
    correct: Tensor

    @property
    def total(self) -> Tensor:
        """log p(y | source) of every target: equal to the ``log_prob`` of a hypothesis with these tokens."""
        return self.log_probs.sum(1)


def score(model: StepModel[Any], batch: Batch | Sequence[Batch]) -> TokenScores:
    """Log-probabilities of all target tokens of a batch, under teacher forcing.

    batch: a batch with targets; for an ensemble also one per model, with the same targets.
    """
    require_eval_mode(model)
    first = batch if isinstance(batch, Batch) else batch[0]
    if first.target is None:
        raise InputError("the batch has no targets to score: give targets")
    target_BT, mask_BT = first.target
    with torch.no_grad():
        log_probs, best, start = [], [], 0
        for log_probs_BtV in model.log_probs(first.target, model.encode(batch)):
            target_Bt = target_BT[:, start : start + log_probs_BtV.shape[1]]
            log_probs.append(log_probs_BtV.gather(2, target_Bt[..., None])[..., 0])
            best.append(log_probs_BtV.argmax(2))
            start += log_probs_BtV.shape[1]
        log_probs_BT = torch.cat(log_probs, 1).masked_fill(~mask_BT, 0)
        return TokenScores(log_probs_BT, mask_BT, (torch.cat(best, 1) == target_BT) & mask_BT)

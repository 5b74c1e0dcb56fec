"""What a model thinks of a target that is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.decode.protocol import Scorable, check_in_use
from seqloom.errors import InputError
from seqloom.nn.memory import State, Step

ROWS = 512
"""How many rows of log-probabilities over the whole vocabulary are held at a time."""


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


def score(model: Scorable[Any], batch: Batch | Sequence[Batch]) -> Scored:
    """The log-probability of every token of the batch's targets, by teacher forcing.

    batch: for an ensemble also one for each of its models, with the same targets.
    """
    check_in_use(model)
    first = batch if isinstance(batch, Batch) else batch[0]
    if first.target is None:
        raise InputError("there is nothing to score: this batch has no target")
    target_BT, mask_BT = first.target
    with torch.no_grad():
        memory = model.prepare(batch)
        inputs_BT = model.output.shift(target_BT, mask_BT)
        decoded = model(inputs_BT, memory, weights=model.output.needs_weights)
        log_probs, best = [], []
        B, T = target_BT.shape
        chunk = max(1, ROWS // B)
        for start in range(0, T, chunk):
            part = slice(start, min(T, start + chunk))
            # The steps of a sentence are to the output what its beams are: adjacent rows with one memory.
            features_RH = decoded.features[:, part].flatten(0, 1)
            weights_RS = None if decoded.weights is None else decoded.weights[:, part].flatten(0, 1)
            log_probs_RV = model.output.log_probs(Step(features_RH, weights_RS, State()), memory)
            target_R = target_BT[:, part].reshape(-1)
            log_probs.append(log_probs_RV.gather(1, target_R[:, None]).view(B, -1))
            best.append(log_probs_RV.argmax(1).view(B, -1))
        log_probs_BT = torch.cat(log_probs, 1).masked_fill(~mask_BT, 0)
        return Scored(log_probs_BT, mask_BT, (torch.cat(best, 1) == target_BT) & mask_BT)

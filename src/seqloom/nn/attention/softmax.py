"""Softmax attention weights."""

import torch
from torch import Tensor

from seqloom.nn.attention.base import Normalizer
from seqloom.registry import register


@register("normalizer", "softmax")
class Softmax(Normalizer):
    """Softmax: soft attention, with a positive weight for every key that is not masked.

        w_s = exp(score_s) / Σ_s' exp(score_s')

    If all keys of a query are masked, all its weights are 0, and so is its context vector.

    Shapes: scores, mask and weights are B × T × S.
    """

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        return masked_softmax(scores_BTS, None if mask_BTS is None else ~mask_BTS)


def masked_softmax(scores: Tensor, masked: Tensor | None) -> Tensor:
    """Softmax over the entries that are not masked (``masked`` is True there); zeros if all are."""
    if masked is None:
        return torch.softmax(scores, -1)
    # The lowest finite number, not −∞: a row that is masked entirely must not become NaN.
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(masked, lowest), -1).masked_fill(masked, 0.0)

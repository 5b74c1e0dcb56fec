"""The soft choice."""

import torch
from torch import Tensor

from seqloom.nn.attention.base import Normaliser
from seqloom.registry import register


@register("normaliser", "softmax")
class Softmax(Normaliser):
    """The soft choice: every value, weighted by the exponential of its score.

        w_s = exp(score_s) / Σ_s' exp(score_s')

    A query that may see nothing gets no weight at all, and so a zero context.
    """

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        return masked_softmax(scores_BTS, None if mask_BTS is None else ~mask_BTS)


def masked_softmax(scores: Tensor, hidden: Tensor | None) -> Tensor:
    """The softmax over what is not hidden; zeros where everything is."""
    if hidden is None:
        return torch.softmax(scores, -1)
    # The lowest finite number, not −∞: a row with nothing to see must not become NaN.
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(hidden, lowest), -1).masked_fill(hidden, 0.0)

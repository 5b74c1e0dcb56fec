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
        if mask_BTS is None:
            return torch.softmax(scores_BTS, -1)
        hidden_BTS = ~mask_BTS
        # The lowest finite number, not −∞: a row with nothing to see must not become NaN.
        lowest = torch.finfo(scores_BTS.dtype).min
        return torch.softmax(scores_BTS.masked_fill(hidden_BTS, lowest), -1).masked_fill(hidden_BTS, 0.0)

"""The hard choice."""

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.nn.attention.base import Normaliser
from seqloom.registry import register


@register("normaliser", "closest")
class Closest(Normaliser):
    """The hard choice: the value of the best match alone (of several best, the first).

        w_s = 1 if s = argmax score, else 0

    A small change of a score changes nothing, so no gradient reaches query or key: only values learn.
    """

    differentiable = False

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        if scores_BTS.shape[-1] == 0:
            return torch.zeros_like(scores_BTS)
        seen = scores_BTS if mask_BTS is None else scores_BTS.masked_fill(~mask_BTS, -torch.inf)
        best_BTS = F.one_hot(seen.argmax(-1), scores_BTS.shape[-1]).to(scores_BTS.dtype)
        return best_BTS if mask_BTS is None else best_BTS * mask_BTS

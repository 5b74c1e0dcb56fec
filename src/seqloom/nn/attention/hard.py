"""Hard attention."""

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.nn.attention.base import Normalizer
from seqloom.registry import register


@register("normalizer", "hard")
class Hard(Normalizer):
    """Hard attention: weight 1 for the key with the highest score (the first one if several tie), 0 for all others.

        w_s = 1 if s = argmax score, else 0

    The argmax has no gradient, so queries and keys are not trained; only the values are.

    Shapes: scores, mask and weights are B × T × S.
    """

    differentiable = False

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        if scores_BTS.shape[-1] == 0:
            return torch.zeros_like(scores_BTS)
        masked_BTS = scores_BTS if mask_BTS is None else scores_BTS.masked_fill(~mask_BTS, -torch.inf)
        best_BTS = F.one_hot(masked_BTS.argmax(-1), scores_BTS.shape[-1]).to(scores_BTS.dtype)
        return best_BTS if mask_BTS is None else best_BTS * mask_BTS

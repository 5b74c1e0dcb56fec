"""The sparse choice."""

import torch
from torch import Tensor

from seqloom.nn.attention.base import Normaliser
from seqloom.registry import register


@register("normaliser", "sparsemax")
class Sparsemax(Normaliser):
    """The sparse choice: weights like a softmax's, but exactly 0 for what matches too badly.

        w = argmin_{p ∈ simplex} ‖p − score‖² = max(score − τ, 0)
        τ = (Σ_{s ∈ A} score_s − 1) / |A|,    A = the k best,  k = max{k : 1 + k · score_(k) > Σ_{j ≤ k} score_(j)}

    with score_(1) ≥ score_(2) ≥ … in order. Martins and Astudillo 2016, "From softmax to sparsemax". The gradient is
    diag(1_A) − 1_A 1_Aᵀ / |A|: what has no weight gets none. A query that may see nothing gets no weight at all.

    Shapes: scores, mask and weights are B × T × S.
    """

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        S = scores_BTS.shape[-1]
        if S == 0:
            return torch.zeros_like(scores_BTS)
        lowest = torch.finfo(scores_BTS.dtype).min
        seen = scores_BTS if mask_BTS is None else scores_BTS.masked_fill(~mask_BTS, lowest)
        seen = (
            seen - seen.amax(-1, keepdim=True).detach()
        )  # a shift changes nothing, and sums of small numbers are exact
        ordered_BTS = seen.sort(descending=True).values
        k_S = torch.arange(1, S + 1, device=scores_BTS.device)
        in_A_BTS = 1 + k_S * ordered_BTS > ordered_BTS.cumsum(-1)
        tau_BT1 = (ordered_BTS.where(in_A_BTS, 0.0).sum(-1, keepdim=True) - 1) / in_A_BTS.sum(-1, keepdim=True)
        weights_BTS = torch.relu(seen - tau_BT1)
        return weights_BTS if mask_BTS is None else weights_BTS.masked_fill(~mask_BTS, 0.0)

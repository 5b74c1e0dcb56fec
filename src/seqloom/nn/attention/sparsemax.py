"""Sparse attention weights."""

import torch
from torch import Tensor

from seqloom.nn.attention.base import Normalizer
from seqloom.registry import register


@register("normalizer", "sparsemax")
class Sparsemax(Normalizer):
    """Sparsemax: attention weights like those of softmax, but exactly 0 for keys with low scores.

        w = argmin_{p ∈ simplex} ‖p − score‖² = max(score − τ, 0) τ = (Σ_{s ∈ A} score_s − 1) / |A|,    A = the k
        highest,    k = max{k : 1 + k · score_(k) > Σ_{j ≤ k} score_(j)}

    with sorted scores, score_(1) ≥ score_(2) ≥ …. Martins and Astudillo 2016, "From softmax to sparsemax". The
    Jacobian is diag(1_A) − 1_A 1_Aᵀ / |A|: keys with weight 0 get no gradient. If all keys of a query are masked, all
    its weights are 0.

    Shapes: scores, mask and weights are B × T × S.
    """

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        S = scores_BTS.shape[-1]
        if S == 0:
            return torch.zeros_like(scores_BTS)
        lowest = torch.finfo(scores_BTS.dtype).min
        z_BTS = scores_BTS if mask_BTS is None else scores_BTS.masked_fill(~mask_BTS, lowest)
        # Sparsemax is invariant to a shift, and sums of small numbers are more exact.
        z_BTS = z_BTS - z_BTS.amax(-1, keepdim=True).detach()
        sorted_BTS = z_BTS.sort(descending=True).values
        k_S = torch.arange(1, S + 1, device=scores_BTS.device)
        in_A_BTS = 1 + k_S * sorted_BTS > sorted_BTS.cumsum(-1)
        tau_BT1 = (sorted_BTS.where(in_A_BTS, 0.0).sum(-1, keepdim=True) - 1) / in_A_BTS.sum(-1, keepdim=True)
        weights_BTS = torch.relu(z_BTS - tau_BT1)
        return weights_BTS if mask_BTS is None else weights_BTS.masked_fill(~mask_BTS, 0.0)

"""Sparsemax by bisection (Martins and Astudillo 2016; Blondel et al. 2019)."""

import torch

from seqloom import register
from seqloom.nn.attention import Normaliser


@register("normaliser", "outside_sparsemax")
class OutsideSparsemax(Normaliser):
    """w = max(score − τ, 0), with τ found by halving an interval so that the weights add up to 1."""

    def forward(self, scores_BTS, mask_BTS):
        if scores_BTS.shape[-1] == 0:
            return torch.zeros_like(scores_BTS)
        lowest = torch.finfo(scores_BTS.dtype).min
        seen = scores_BTS if mask_BTS is None else scores_BTS.masked_fill(~mask_BTS, lowest)
        seen = seen - seen.amax(-1, keepdim=True).detach()
        low, high = torch.full_like(seen[..., :1], -1.0), torch.zeros_like(seen[..., :1])
        for _ in range(50):
            middle = (low + high) / 2
            enough = torch.relu(seen - middle).sum(-1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        among = seen > low.detach()
        tau = (seen.where(among, 0.0).sum(-1, keepdim=True) - 1) / among.sum(-1, keepdim=True)
        weights = torch.relu(seen - tau)
        return weights if mask_BTS is None else weights.masked_fill(~mask_BTS, 0.0)

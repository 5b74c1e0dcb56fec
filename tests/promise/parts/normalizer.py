"""Sparsemax by bisection (Martins and Astudillo 2016; Blondel et al. 2019)."""

import torch

from seqloom import register
from seqloom.nn.attention import Normalizer


@register("normalizer", "outside_sparsemax")
class OutsideSparsemax(Normalizer):
    """w = max(score − τ, 0), with τ found by bisection so that the weights add up to 1."""

    def forward(self, scores_BTS, mask_BTS):
        if scores_BTS.shape[-1] == 0:
            return torch.zeros_like(scores_BTS)
        lowest = torch.finfo(scores_BTS.dtype).min
        masked = scores_BTS if mask_BTS is None else scores_BTS.masked_fill(~mask_BTS, lowest)
        masked = masked - masked.amax(-1, keepdim=True).detach()
        low, high = torch.full_like(masked[..., :1], -1.0), torch.zeros_like(masked[..., :1])
        for _ in range(50):
            middle = (low + high) / 2
            enough = torch.relu(masked - middle).sum(-1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        support = masked > low.detach()
        tau = (masked.where(support, 0.0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
        weights = torch.relu(masked - tau)
        return weights if mask_BTS is None else weights.masked_fill(~mask_BTS, 0.0)

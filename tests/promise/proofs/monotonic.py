"""Monotonic attention in expectation (Raffel et al. 2017): it stops at a token, and never goes back."""

import torch

from seqloom import register
from seqloom.nn.attention import Normaliser


@register("normaliser", "outside_monotonic")
class OutsideMonotonic(Normaliser):
    """p_s = σ(score_s), the chance to stop at s: weights_s = p_s Σ_{r≤s} past_r Π_{r≤j<s} (1 − p_j)."""

    carries = True
    complete = False

    def initial(self, prepared_BSD):
        start_BS = super().initial(prepared_BSD)
        return torch.cat((start_BS[:, :1] + 1, start_BS[:, 1:]), 1)

    def forward(self, scores_BTS, mask_BTS, past_BTS=None):
        p = torch.sigmoid(scores_BTS)
        p = p if mask_BTS is None else p.masked_fill(~mask_BTS, 0.0)
        past = torch.zeros_like(p) if past_BTS is None else past_BTS
        if past_BTS is None:
            past = torch.cat((past[..., :1] + 1, past[..., 1:]), -1)
        arrived, weights = torch.zeros_like(p[..., 0]), []
        for s in range(p.shape[-1]):
            arrived = arrived + past[..., s]
            weights.append(p[..., s] * arrived)
            arrived = arrived * (1 - p[..., s])
        return torch.stack(weights, -1)

    def update(self, past_BTS, weights_BTS):
        return weights_BTS

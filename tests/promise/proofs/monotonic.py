"""Monotonic attention in expectation (Raffel et al. 2017): attention stops at a token and never moves back."""

import torch

from seqloom import register
from seqloom.nn.attention import Normalizer


@register("normalizer", "outside_monotonic")
class OutsideMonotonic(Normalizer):
    """p_s = σ(score_s), the probability of stopping at s: weights_s = p_s Σ_{r≤s} past_r Π_{r≤j<s} (1 − p_j)."""

    stateful = True
    sums_to_one = False

    def initial_state(self, projected_BSD):
        start_BS = super().initial_state(projected_BSD)
        return torch.cat((start_BS[:, :1] + 1, start_BS[:, 1:]), 1)

    def forward(self, scores_BTS, mask_BTS, state_BTS=None):
        p = torch.sigmoid(scores_BTS)
        p = p if mask_BTS is None else p.masked_fill(~mask_BTS, 0.0)
        past = torch.zeros_like(p) if state_BTS is None else state_BTS
        if state_BTS is None:
            past = torch.cat((past[..., :1] + 1, past[..., 1:]), -1)
        arrived, weights = torch.zeros_like(p[..., 0]), []
        for s in range(p.shape[-1]):
            arrived = arrived + past[..., s]
            weights.append(p[..., s] * arrived)
            arrived = arrived * (1 - p[..., s])
        return torch.stack(weights, -1)

    def update_state(self, state_BTS, weights_BTS):
        return weights_BTS

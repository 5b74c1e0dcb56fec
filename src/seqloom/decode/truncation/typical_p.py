"""Locally typical tokens."""

import torch
from torch import Tensor

from seqloom.decode.truncation.base import Mass, Truncation, fewest
from seqloom.registry import register


@register("truncation", "typical_p")
class TypicalP(Truncation):
    """The fewest tokens with a given share of the probability whose information is nearest to what is expected.

        first those with the least |−log q_v − H|,    H = −Σ_v q_v log q_v

    Meister et al. 2023, "Locally typical sampling". The likeliest token may be left out.

    mass: that share.
    """

    keeps_likeliest = False

    def __init__(self, *, mass: Mass = 0.95) -> None:
        self.mass = mass

    def __call__(self, probs: Tensor) -> Tensor:
        probs = probs / probs.sum(-1, keepdim=True)
        entropy = torch.special.entr(probs).sum(-1, keepdim=True)
        return fewest(probs, (probs.log() + entropy).abs(), self.mass)

"""Locally typical tokens."""

import torch
from torch import Tensor

from seqloom.decode.truncation.base import Mass, Truncation, smallest_set
from seqloom.registry import register


@register("truncation", "typical_p")
class TypicalP(Truncation):
    """Typical-p: the smallest set of tokens with a given probability mass and −log q closest to the entropy.

        in ascending order of |−log q_v − H|,    H = −Σ_v q_v log q_v

    Meister et al. 2023, "Locally typical sampling". The most likely token may be removed.

    mass: minimum probability mass of the tokens kept.
    """

    keeps_most_likely = False

    def __init__(self, *, mass: Mass = 0.95) -> None:
        self.mass = mass

    def __call__(self, probs: Tensor) -> Tensor:
        probs = probs / probs.sum(-1, keepdim=True)
        entropy = torch.special.entr(probs).sum(-1, keepdim=True)
        return smallest_set(probs, (probs.log() + entropy).abs(), self.mass)

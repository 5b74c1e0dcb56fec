"""Epsilon sampling (Hewitt et al. 2022)."""

from seqloom import register
from seqloom.decode.truncation import Truncation
from seqloom.registry import Share


@register("truncation", "epsilon")
class Epsilon(Truncation):
    """The tokens of a probability of at least ε, or the likeliest if there are none.

    epsilon: ε.
    """

    def __init__(self, *, epsilon: Share = 0.1):
        self.epsilon = epsilon

    def __call__(self, probs):
        share = probs / probs.sum(-1, keepdim=True)
        return probs * ((share >= self.epsilon) | (share == share.amax(-1, keepdim=True)))

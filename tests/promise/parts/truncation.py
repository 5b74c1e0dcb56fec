"""Epsilon sampling (Hewitt et al. 2022)."""

from seqloom import register
from seqloom.decode.truncation import Truncation
from seqloom.registry import Fraction


@register("truncation", "epsilon")
class Epsilon(Truncation):
    """Keep the tokens with a probability of at least ε, or the most likely one if there are none.

    epsilon: minimum probability ε.
    """

    def __init__(self, *, epsilon: Fraction = 0.1):
        self.epsilon = epsilon

    def __call__(self, probs):
        share = probs / probs.sum(-1, keepdim=True)
        return probs * ((share >= self.epsilon) | (share == share.amax(-1, keepdim=True)))

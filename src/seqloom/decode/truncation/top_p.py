"""The nucleus."""

from torch import Tensor

from seqloom.decode.truncation.base import Mass, Truncation, fewest
from seqloom.registry import register


@register("truncation", "top_p")
class TopP(Truncation):
    """The nucleus: the fewest likeliest tokens that have a given share of the probability together.

    Holtzman et al. 2020, "The curious case of neural text degeneration".

    mass: that share.
    """

    def __init__(self, *, mass: Mass = 0.95) -> None:
        self.mass = mass

    def __call__(self, probs: Tensor) -> Tensor:
        return fewest(probs, -probs, self.mass)

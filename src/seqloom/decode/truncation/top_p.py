"""Top-p (nucleus) truncation."""

from torch import Tensor

from seqloom.decode.truncation.base import Mass, Truncation, smallest_set
from seqloom.registry import register


@register("truncation", "top_p")
class TopP(Truncation):
    """Top-p (nucleus): the smallest set of most likely tokens with a given probability mass.

    Holtzman et al. 2020, "The curious case of neural text degeneration".

    mass: minimum probability mass of the tokens kept.
    """

    def __init__(self, *, mass: Mass = 0.95) -> None:
        self.mass = mass

    def __call__(self, probs: Tensor) -> Tensor:
        return smallest_set(probs, -probs, self.mass)

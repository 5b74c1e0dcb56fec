"""The base class of truncations."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

Mass = Annotated[float, Field(gt=0, le=1)]
"""A fraction of the probability mass."""


class Truncation:
    """Restricts the tokens that sampling draws from: ``truncation(probs)`` sets all others to 0.

    Shapes: probs is … × V. The probabilities of the tokens that are kept don't change. Neither input nor output need
    sum to 1, since truncations can be applied one after another. At least one token is kept, and so are all tokens
    tied with the last one kept.
    """

    keeps_most_likely: ClassVar[bool] = True
    """Whether the most likely token is always kept."""

    def __call__(self, probs: Tensor) -> Tensor:
        """The probabilities of the tokens that are kept, 0 for all others, … V."""
        raise NotImplementedError


def smallest_set(probs: Tensor, cost: Tensor, mass: float) -> Tensor:
    """Keep the tokens of the least cost, as few as have this fraction of the probability mass together."""
    sorted_cost, order = cost.sort()
    sorted_probs = probs.gather(-1, order)
    mass_before = sorted_probs.cumsum(-1) - sorted_probs
    enough = mass_before >= mass * sorted_probs.sum(-1, keepdim=True)
    enough[..., 0] = False  # always keep the first token, whatever the rounding
    return probs * (cost <= sorted_cost.masked_fill(enough, -torch.inf).amax(-1, keepdim=True))

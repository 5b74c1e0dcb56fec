"""What a truncation is."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

Mass = Annotated[float, Field(gt=0, le=1)]
"""A share of probability."""


class Truncation:
    """Which tokens are drawn from: ``truncation(probs)`` gives 0 to what is left out.

    Shapes: probs is … × V. What is left keeps its proportions. Neither it nor what is given need add up to 1, as one
    truncation may follow another. Something is always left, and tokens that are equal to the last one in stay in.
    """

    keeps_likeliest: ClassVar[bool] = True
    """Whether the likeliest token always stays in."""

    def __call__(self, probs: Tensor) -> Tensor:
        """The probabilities of what is left, … V."""
        raise NotImplementedError


def fewest(probs: Tensor, strangeness: Tensor, mass: float) -> Tensor:
    """The least strange tokens, as many as it takes to have this share of the probability."""
    strange, order = strangeness.sort()
    in_order = probs.gather(-1, order)
    before = in_order.cumsum(-1) - in_order
    enough = before >= mass * in_order.sum(-1, keepdim=True)
    enough[..., 0] = False  # the first is always in, even where rounding says that nothing is needed
    return probs * (strangeness <= strange.masked_fill(enough, -torch.inf).amax(-1, keepdim=True))

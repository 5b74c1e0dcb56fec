"""What is likely enough."""

from torch import Tensor

from seqloom.decode.truncation.base import Mass, Truncation
from seqloom.registry import register


@register("truncation", "min_p")
class MinP(Truncation):
    """The tokens at least a given share as likely as the likeliest.

        q_v ≥ share · max_u q_u

    Nguyen et al. 2025, "Turning up the heat: min-p sampling".

    share: how likely, relative to the likeliest.
    """

    def __init__(self, *, share: Mass = 0.1) -> None:
        self.share = share

    def __call__(self, probs: Tensor) -> Tensor:
        return probs * (probs >= self.share * probs.amax(-1, keepdim=True))

"""Min-p truncation."""

from torch import Tensor

from seqloom.decode.truncation.base import Mass, Truncation
from seqloom.registry import register


@register("truncation", "min_p")
class MinP(Truncation):
    """Min-p: the tokens with at least a given fraction of the highest probability.

        q_v ≥ share · max_u q_u

    Nguyen et al. 2025, "Turning up the heat: min-p sampling".

    share: minimum probability relative to that of the most likely token.
    """

    def __init__(self, *, share: Mass = 0.1) -> None:
        self.share = share

    def __call__(self, probs: Tensor) -> Tensor:
        return probs * (probs >= self.share * probs.amax(-1, keepdim=True))

"""The likeliest few."""

from torch import Tensor

from seqloom.decode.truncation.base import Truncation
from seqloom.registry import Count, register


@register("truncation", "top_k")
class TopK(Truncation):
    """The k likeliest tokens.

    Fan et al. 2018, "Hierarchical neural story generation".

    k: how many.
    """

    def __init__(self, *, k: Count = 10) -> None:
        self.k = k

    def __call__(self, probs: Tensor) -> Tensor:
        return probs * (probs >= probs.topk(min(self.k, probs.shape[-1])).values[..., -1:])

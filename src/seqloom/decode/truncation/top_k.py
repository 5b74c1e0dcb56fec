"""Top-k truncation."""

from pydantic import PositiveInt
from torch import Tensor

from seqloom.decode.truncation.base import Truncation
from seqloom.registry import register


@register("truncation", "top_k")
class TopK(Truncation):
    """Top-k: the k most likely tokens.

    Fan et al. 2018, "Hierarchical neural story generation".

    k: number of tokens kept.
    """

    def __init__(self, *, k: PositiveInt = 10) -> None:
        self.k = k

    def __call__(self, probs: Tensor) -> Tensor:
        return probs * (probs >= probs.topk(min(self.k, probs.shape[-1])).values[..., -1:])

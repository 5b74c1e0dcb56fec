"""Dot-product attention."""

from torch import Tensor

from seqloom.nn.attention.base import ScoreFunction
from seqloom.registry import register


@register("score", "dot")
class Dot(ScoreFunction):
    """Dot-product attention score function, for queries and keys of the same size.

        score(q, k) = q · k

    Luong et al. 2015.

    Shapes: queries B × T × D, keys B × S × D, scores B × T × S.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.require_one_size("dot")

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        return query_BTD @ projected_BSD.mT

"""The dot product as a score."""

from torch import Tensor

from seqloom.nn.attention.base import Score
from seqloom.registry import register


@register("score", "dot")
class Dot(Score):
    """The dot product of query and key.

        score(q, k) = q · k

    Luong et al. 2015.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.require_one_size("dot")

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        return query_BTD @ prepared_BSD.mT

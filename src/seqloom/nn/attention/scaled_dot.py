"""Scaled dot-product attention."""

from typing import Literal

from torch import Tensor

from seqloom.nn.attention.base import ScoreFunction
from seqloom.registry import register


@register("score", "scaled_dot")
class ScaledDot(ScoreFunction):
    """Scaled dot-product attention score function: the dot product divided by √d, or by d.

        score(q, k) = q · k / √d        by: root
        score(q, k) = q · k / d         by: size

    Vaswani et al. 2017. If the entries of q and k are independent with variance 1, q · k has variance d; dividing by
    √d restores variance 1, so that softmax is not saturated at the start of training.

    Shapes: queries B × T × D, keys B × S × D, scores B × T × S.

    by: divisor of the dot product, √d (``root``) or d (``size``), where d is the size of queries and keys.
    """

    def __init__(self, query_size: int, key_size: int, *, by: Literal["root", "size"] = "root") -> None:
        super().__init__(query_size, key_size)
        d = self.require_one_size("scaled_dot")
        self.divisor = d**0.5 if by == "root" else float(d)

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        return (query_BTD / self.divisor) @ projected_BSD.mT

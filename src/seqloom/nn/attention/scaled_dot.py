"""The dot product, kept from growing with its size."""

from typing import Literal

from torch import Tensor

from seqloom.nn.attention.base import Score
from seqloom.registry import register


@register("score", "scaled_dot")
class ScaledDot(Score):
    """The dot product divided by the root of the size, or by the size.

        score(q, k) = q · k / √d        by: root
        score(q, k) = q · k / d         by: size

    If the entries of q and k are independent with variance 1, q · k has variance d, and the root brings it back
    to 1 so that the softmax does not start out saturated. Vaswani et al. 2017.

    by: ``root`` or ``size``.
    """

    def __init__(self, query_size: int, key_size: int, *, by: Literal["root", "size"] = "root") -> None:
        super().__init__(query_size, key_size)
        d = self.require_one_size("scaled_dot")
        self.divisor = d**0.5 if by == "root" else float(d)

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        return (query_BTD / self.divisor) @ prepared_BSD.mT

"""Exact-match lookup."""

from torch import Tensor

from seqloom.nn.attention.base import Normalizer
from seqloom.registry import register


@register("normalizer", "lookup")
class Lookup(Normalizer):
    """Exact lookup, as in a hash table: weight 1 for the key that equals the query; if none does, a zero context.

        w_s = 1 if ‖q − k_s‖ = 0 (the last such s, as a later entry overwrites an earlier one), else 0

    Works only with the score function ``rbf``, whose score is 0 for equal vectors. A query that equals no key gets no
    weights. Queries and keys get no gradient.

    Shapes: scores, mask and weights are B × T × S.
    """

    differentiable = False
    sums_to_one = False
    compatible_scores = ("rbf",)

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        equal_BTS = scores_BTS.detach() == 0
        if mask_BTS is not None:
            equal_BTS = equal_BTS & mask_BTS
        count_from_here_BTS = equal_BTS.flip(-1).cumsum(-1).flip(-1)
        return (equal_BTS & (count_from_here_BTS == 1)).to(scores_BTS.dtype)

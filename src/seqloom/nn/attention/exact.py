"""The hash table."""

from torch import Tensor

from seqloom.nn.attention.base import Normaliser
from seqloom.registry import register


@register("normaliser", "exact")
class Exact(Normaliser):
    """The hash table: the value whose key *is* the query, else a zero context.

        w_s = 1 if ‖q − k_s‖ = 0 (of several such s, the last, as a later entry replaces an earlier one), else 0

    With the score ``rbf`` only, where equality is a score of 0. Any other query finds nothing, and no gradient
    reaches query or key.
    """

    differentiable = False
    complete = False
    scores = ("rbf",)

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        found_BTS = scores_BTS.detach() == 0
        if mask_BTS is not None:
            found_BTS = found_BTS & mask_BTS
        later_BTS = found_BTS.flip(-1).cumsum(-1).flip(-1)
        return (found_BTS & (later_BTS == 1)).to(scores_BTS.dtype)

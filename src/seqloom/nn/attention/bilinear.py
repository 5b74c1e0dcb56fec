"""A learned matrix between query and key."""

import torch
from torch import Tensor, nn

from seqloom.nn.attention.base import Score
from seqloom.registry import register


@register("score", "bilinear")
class Bilinear(Score):
    """A learned matrix between query and key, of any two sizes.

        score(q, k) = qᵀ W k

    Luong et al. 2015 call it "general". W k is computed once per source.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query_size, key_size)))

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return keys_BSD @ self.weight.t()

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        return query_BTD @ prepared_BSD.mT

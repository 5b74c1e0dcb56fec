"""Bilinear (Luong "general") attention."""

import torch
from torch import Tensor, nn

from seqloom.nn.attention.base import ScoreFunction
from seqloom.registry import register


@register("score", "bilinear")
class Bilinear(ScoreFunction):
    """Bilinear attention score function: a learned matrix between query and key, which may differ in size.

        score(q, k) = qᵀ W k

    Luong et al. 2015, who call it "general". W k is computed once per source.

    Shapes: queries B × T × D_q, keys B × S × D_k, scores B × T × S.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query_size, key_size)))

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return keys_BSD @ self.weight.t()

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        return query_BTD @ projected_BSD.mT

"""Attention by position alone, as a baseline."""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from seqloom.nn.attention.base import ScoreFunction
from seqloom.nn.positions import check_pairs, sinusoids
from seqloom.registry import register


@register("score", "position")
class Position(ScoreFunction):
    """Position-only attention score function, a baseline: depends on the positions t and s, not on query and key.

        score(t, s) = p_tᵀ W p_s / √d

    p is the sinusoidal positional encoding of Vaswani et al. 2017, W is learned. A shift p_s → p_{s+n} is a rotation
    and hence a matrix, so a single W can express "n steps to the right of the target position". W is initialized to
    the identity, which attends to the source position equal to the target position.

    Shapes: queries B × T × D_q, keys B × S × D_k, scores B × T × S.

    size: size d of the sinusoidal positional encoding; even.
    """

    position_only = True

    def __init__(self, query_size: int, key_size: int, *, size: PositiveInt = 64) -> None:
        super().__init__(query_size, key_size)
        check_pairs(size)
        self.weight = nn.Parameter(torch.eye(size))

    def forward(
        self,
        query_BTD: Tensor,
        projected_BSD: Tensor,
        position_BT: Tensor | None = None,
        state_BTS: Tensor | None = None,
    ) -> Tensor:
        if position_BT is None:  # used as a layer: the queries are the first T steps of a target
            position_BT = torch.arange(query_BTD.shape[1], device=query_BTD.device)[None]
        size = len(self.weight)
        source_S = torch.arange(projected_BSD.shape[1], device=query_BTD.device)
        p_BTd = sinusoids(position_BT, size, query_BTD.dtype)
        p_Sd = sinusoids(source_S, size, query_BTD.dtype)
        scores: Tensor = p_BTd @ self.weight @ p_Sd.t() / size**0.5
        return scores.expand(len(query_BTD), -1, -1)

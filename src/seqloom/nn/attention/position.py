"""The static address, as a baseline."""

import torch
from torch import Tensor, nn

from seqloom.nn.attention.base import Score
from seqloom.nn.positions import check_pairs, sinusoids
from seqloom.registry import Count, register


@register("score", "position")
class Position(Score):
    """The static address of an array: the score knows the two positions, and nothing of what stands there.

        score(t, s) = p_tᵀ W p_s / √d

    with p the sinusoids of Vaswani et al. 2017 and W learned. It is a baseline: what attention could do without
    looking. A shift p_s → p_{s+n} is a rotation, hence a matrix, so "n to the right of where I write" is one W; the
    identity, which W starts from, looks straight across.

    size: d, the number of sinusoids; even.
    """

    static = True

    def __init__(self, query_size: int, key_size: int, *, size: Count = 64) -> None:
        super().__init__(query_size, key_size)
        check_pairs(size)
        self.weight = nn.Parameter(torch.eye(size))

    def forward(
        self,
        query_BTD: Tensor,
        prepared_BSD: Tensor,
        position_BT: Tensor | None = None,
        past_BTS: Tensor | None = None,
    ) -> Tensor:
        if position_BT is None:  # alone as a layer: the queries are the first T of a target
            position_BT = torch.arange(query_BTD.shape[1], device=query_BTD.device)[None]
        size = len(self.weight)
        source_S = torch.arange(prepared_BSD.shape[1], device=query_BTD.device)
        p_BTd = sinusoids(position_BT, size, query_BTD.dtype)
        p_Sd = sinusoids(source_S, size, query_BTD.dtype)
        scores: Tensor = p_BTd @ self.weight @ p_Sd.t() / size**0.5
        return scores.expand(len(query_BTD), -1, -1)

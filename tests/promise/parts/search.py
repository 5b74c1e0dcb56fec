"""Greedy search that is eager to end."""

import torch

from seqloom import register
from seqloom.batch import END
from seqloom.decode import Search
from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.walk import Choice
from seqloom.registry import Count, Natural


@register("search", "eager")
class Eager(Search):
    """The likeliest token, step after step; but END as soon as it is among the k likeliest.

    k: among how many.
    min_length, max_length, min_ratio, max_ratio, unknown: as for search ``greedy``.
    """

    def __init__(
        self,
        *,
        k: Count = 2,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ):
        super().__init__(Lengths(min_length, max_length, min_ratio, max_ratio), unknown)
        self.k = k

    def choose(self, log_probs_BKV, rows):
        top_BKC = log_probs_BKV.topk(min(self.k, log_probs_BKV.shape[-1]))
        ends_BK = ((top_BKC.indices == END) & top_BKC.values.isfinite()).any(-1)
        token_BK = torch.where(ends_BK, END, log_probs_BKV.argmax(-1))
        log_prob_BK = log_probs_BKV.gather(-1, token_BK[..., None])[..., 0]
        return Choice(None, token_BK, rows.total_BK + log_prob_BK, log_prob_BK)

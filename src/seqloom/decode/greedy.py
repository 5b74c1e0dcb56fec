"""Greedy search."""

from torch import Tensor

from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.search import Search
from seqloom.decode.walk import Choice, Rows
from seqloom.registry import Count, Natural, register


@register("search", "greedy")
class Greedy(Search):
    """The likeliest token, step after step.

        y_t = argmax_v p(v | y_1 … y_{t−1}, source)

    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set, lengths in the training data
        decide.
    unknown: whether an answer may have UNKNOWN in it.
    """

    def __init__(
        self,
        *,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ) -> None:
        super().__init__(Lengths(min_length, max_length, min_ratio, max_ratio), unknown)

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        log_prob_BK, token_BK = log_probs_BKV.max(-1)
        return Choice(None, token_BK, rows.total_BK + log_prob_BK, log_prob_BK)

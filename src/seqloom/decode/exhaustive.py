"""Exhaustive search."""

import torch
from torch import Tensor

from seqloom.batch import END
from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.masks import IMPOSSIBLE
from seqloom.decode.ranking import NormalisationName, NotNegative, Ranking
from seqloom.decode.search import Search
from seqloom.decode.walk import Choice, Rows
from seqloom.errors import OptionError
from seqloom.registry import Count, Natural, register

CELLS = 10_000_000
"""How many log-probabilities of a step are looked at for a sentence, at most."""


@register("search", "exhaustive")
class Exhaustive(Search):
    """All answers there are, for tiny problems: what it finds best is best.

    Nothing is left out but what can't become better than the ``n_best`` answers found, however it ends. There are
    about V^n beginnings of n tokens; where that gets too much the search is refused.

    n_best: how many answers are given.
    normalisation: how answers of different lengths are compared: ``none``, ``average`` or ``wu``.
    alpha: α of ``wu``, 0.6 by default.
    coverage: the weight of the penalty for what the answer did not attend to; see beam search.
    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set, lengths in the training data
        decide.
    unknown: whether an answer may have UNKNOWN in it.
    """

    def __init__(
        self,
        *,
        n_best: Count = 1,
        normalisation: NormalisationName = "average",
        alpha: NotNegative | None = None,
        coverage: NotNegative = 0.0,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ) -> None:
        super().__init__(
            Lengths(min_length, max_length, min_ratio, max_ratio),
            unknown,
            n_best=n_best,
            ranking=Ranking(normalisation, alpha, coverage=coverage),
        )
        self.rows = CELLS  # one sentence at a time

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        B, K, V = log_probs_BKV.shape
        token_V = torch.arange(V, device=log_probs_BKV.device)
        too_long_B1V = (rows.most_B == rows.t)[:, None, None] & (token_V != END)
        total_BKV = (rows.total_BK[..., None] + log_probs_BKV).masked_fill(too_long_B1V, IMPOSSIBLE)
        beginnings = int((total_BKV[..., token_V != END] > IMPOSSIBLE).sum((1, 2)).max())
        if beginnings * V > CELLS:
            raise OptionError(
                f"exhaustive search is for tiny problems: here are {beginnings} beginnings of {rows.t + 1} tokens, "
                f"and a vocabulary of {V}; set a smaller max_length, or use search 'beam'"
            )
        return Choice(
            torch.arange(K, device=token_V.device).repeat_interleave(V).expand(B, -1),
            token_V.repeat(K).expand(B, -1),
            total_BKV.flatten(1),
            log_probs_BKV.amax(-1),
        )

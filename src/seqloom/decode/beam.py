"""Beam search."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from seqloom.batch import END
from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.normalisation import Normalisation, NormalisationName
from seqloom.decode.search import Search
from seqloom.decode.walk import IMPOSSIBLE, Choice, Rows
from seqloom.errors import OptionError
from seqloom.registry import Count, Natural, register


@register("search", "beam")
class Beam(Search):
    """The best few beginnings side by side, step after step.

    Of all tokens that can follow the K beginnings of a sentence, the K likeliest together go on. One that reaches
    END keeps its place: those beside it go on in the places left, until there are none, or until none of them can
    become better than the ``n_best`` answers found, however it ends (so stopping early loses nothing). At the maximum
    length a beginning ends if END is among its K likeliest tokens; else it is cut, and comes after all that ended.

        value = log p(y, END | source) / divisor(n), n = |y| + 1
        none: divisor = 1        average: divisor = n        wu: divisor = ((5 + n) / 6)^α        (Wu et al. 2016)

    width: K.
    n_best: how many answers are given, at most K.
    normalisation: how answers of different lengths are compared: ``none``, ``average`` or ``wu``.
    alpha: α of ``wu``, 0.6 by default.
    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set it is 2·S + 20 for S steps, and
        100 without a source.
    unknown: whether an answer may have UNKNOWN in it.
    """

    def __init__(
        self,
        *,
        width: Count = 5,
        n_best: Count = 1,
        normalisation: NormalisationName = "average",
        alpha: Annotated[float, Field(ge=0)] | None = None,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ) -> None:
        if n_best > width:
            raise OptionError(f"n_best={n_best} answers need a beam of at least that width; it is {width}")
        super().__init__(
            Lengths(min_length, max_length, min_ratio, max_ratio),
            unknown,
            n_best=n_best,
            normalisation=Normalisation(normalisation, alpha),
        )
        self.width = width

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        # The best of all are among the best of each row: so the wide table is looked through once, row by row.
        log_prob_BKW, token_BKW = _best(log_probs_BKV, self.width)
        best_BK = log_prob_BKW[..., 0]
        too_long_BKW = (rows.most_B == rows.t)[:, None, None] & (token_BKW != END)
        log_prob_BKW = log_prob_BKW.masked_fill(too_long_BKW, IMPOSSIBLE)
        total_BX = (rows.total_BK[..., None] + log_prob_BKW).flatten(1)
        total_BW, place_BW = _best(total_BX, self.width)
        taken_BW = torch.arange(place_BW.shape[1], device=place_BW.device) >= self.width - rows.finished_B[:, None]
        return Choice(
            place_BW // log_prob_BKW.shape[-1],
            token_BKW.flatten(1).gather(1, place_BW),
            log_prob_BKW.flatten(1).gather(1, place_BW),
            total_BW.masked_fill(taken_BW, IMPOSSIBLE),
            best_BK,
        )


def _best(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest of the last dimension, or all if there are fewer, greatest first; and where they are."""
    if k == 1:  # faster, and of equals it takes the first, as greedy search does
        best = x.max(-1, keepdim=True)
        return best.values, best.indices
    top = x.topk(min(k, x.shape[-1]))
    return top.values, top.indices

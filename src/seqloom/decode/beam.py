"""Beam search."""

import torch
from torch import Tensor

from seqloom.batch import END
from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.masks import IMPOSSIBLE, Masks
from seqloom.decode.ranking import NormalisationName, NotNegative, Ranking
from seqloom.decode.required import Allocated
from seqloom.decode.search import Search
from seqloom.decode.top import best
from seqloom.decode.walk import Choice, Choose, Rows
from seqloom.errors import OptionError
from seqloom.registry import Count, Natural, register


@register("search", "beam")
class Beam(Search):
    """The best few beginnings side by side, step after step.

    Of all tokens that can follow the K beginnings of a sentence, the K likeliest together go on. One that reaches
    END keeps its place: those beside it go on in the places left, until there are none, or until none of them can
    become better than the ``n_best`` answers found, however it ends (so stopping early loses nothing). At the maximum
    length a beginning ends if END is among its K likeliest tokens; else it is cut, and comes after all that ended.

    With ``refill``, the place of one that reaches END is taken by the next likeliest, of the 2 K likeliest, that does
    not: so K beginnings go on, until K answers are found.

        value = log p(y, END | source) / divisor(n) + β Σ_s log min(Σ_t w_ts, 1),        n = |y| + 1
        none: divisor = 1        average: divisor = n        wu: divisor = ((5 + n) / 6)^α        (Wu et al. 2016)

    Words that must be said are seen to by places in the beam that are kept for them (Post and Vilar 2018).

    width: K.
    n_best: how many answers are given, at most K.
    refill: whether a place in the beam that an answer leaves is filled again; by default it is not, but by an engine
        that can't search otherwise.
    normalisation: how answers of different lengths are compared: ``none``, ``average`` or ``wu``.
    alpha: α of ``wu``, 0.6 by default.
    coverage: β, the weight of the penalty for steps s of the source that no step t of the answer attended to (Wu et
        al. 2016); for models with attention to their source. It ranks answers, and does not steer their beginnings.
    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set, lengths in the training data
        decide.
    unknown: whether an answer may have UNKNOWN in it.
    """

    def __init__(
        self,
        *,
        width: Count = 5,
        n_best: Count = 1,
        refill: bool | None = None,
        normalisation: NormalisationName = "average",
        alpha: NotNegative | None = None,
        coverage: NotNegative = 0.0,
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
            ranking=Ranking(normalisation, alpha, coverage=coverage),
        )
        self.width = self.rows = width
        self.refill = refill

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        # The best of all are among the best of each row: so the wide table is looked through once, row by row.
        candidates = 2 * self.width if self.refill else self.width
        log_prob_BKW, token_BKW = best(log_probs_BKV, candidates)
        best_BK = log_prob_BKW[..., 0]
        number_W = torch.arange(token_BKW.shape[-1], device=token_BKW.device)
        too_long_BKW = (rows.most_B == rows.t)[:, None, None] & ((token_BKW != END) | (number_W >= self.width))
        total_BKW = rows.total_BK[..., None] + log_prob_BKW.masked_fill(too_long_BKW, IMPOSSIBLE)
        total_BW, place_BW = best(total_BKW.flatten(1), candidates)
        token_BW = token_BKW.flatten(1).gather(1, place_BW)
        chosen_BW = self._chosen((token_BW == END) & (total_BW > IMPOSSIBLE), rows.finished_BO)
        return Choice(
            place_BW // token_BKW.shape[-1], token_BW, total_BW.masked_fill(~chosen_BW, IMPOSSIBLE), best_BK
        )

    def _chosen(self, ends_BW: Tensor, finished_B1: Tensor) -> Tensor:
        """Which of the candidates, best first, end here or go on; ``finished``: how many answers there are."""
        number_W = torch.arange(ends_BW.shape[1], device=ends_BW.device)
        if not self.refill:
            return number_W < self.width - finished_B1
        ends_here_BW = ends_BW & (number_W < self.width)
        enough_B1 = finished_B1 + ends_here_BW.sum(1, keepdim=True) >= self.width
        return ends_here_BW | ~ends_BW & ((~ends_BW).cumsum(1) <= self.width) & ~enough_B1

    def strategy(self, masks: Masks) -> Choose:
        if masks.requires and self.refill:
            raise OptionError("words that must be said have places of their own in a beam: leave out refill")
        return Allocated(masks.required or [], self.width).choose if masks.requires else self.choose

"""Diverse beam search."""

import torch
from torch import Tensor

from seqloom.batch import END
from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.masks import IMPOSSIBLE
from seqloom.decode.ranking import NormalisationName, NotNegative, Ranking
from seqloom.decode.search import Search
from seqloom.decode.top import best
from seqloom.decode.walk import Choice, Rows
from seqloom.errors import OptionError
from seqloom.registry import Count, Natural, register


@register("search", "diverse")
class Diverse(Search):
    """Several beams side by side, each kept from saying at a step what those before it say there.

    At every step group g chooses, after the groups before it, by

        log p(y_1 … y_t | source) − λ · how many rows of groups before g said y_t at this step

    which is Hamming diversity (Vijayakumar et al. 2018). The penalty decides at its step only: answers are ranked by
    their own log-probabilities, as in beam search. Groups may still find the same answer; it is then given twice.

    width: of all groups together.
    groups: how many; they share the width equally.
    diversity: λ.
    n_best: how many answers are given, the best of all groups, at most ``width``; by default one for each group.
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
        width: Count = 6,
        groups: Count = 3,
        diversity: NotNegative = 0.5,
        n_best: Count | None = None,
        normalisation: NormalisationName = "average",
        alpha: NotNegative | None = None,
        coverage: NotNegative = 0.0,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ) -> None:
        if width % groups:
            raise OptionError(f"groups={groups} can't share a width of {width} equally: make it a multiple")
        if n_best is not None and n_best > width:
            raise OptionError(f"n_best={n_best} answers need a beam of at least that width; it is {width}")
        super().__init__(
            Lengths(min_length, max_length, min_ratio, max_ratio),
            unknown,
            starts=groups,
            n_best=n_best or groups,
            ranking=Ranking(normalisation, alpha, coverage=coverage),
        )
        self.width, self.groups, self.diversity = width, groups, diversity
        self.rows = width

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        each = self.width // self.groups
        # No more than ``width`` tokens are penalised: so the best after that are among so many more before it.
        log_prob_BKC, token_BKC = best(log_probs_BKV, each + self.width)
        place_C = torch.arange(token_BKC.shape[-1], device=token_BKC.device)
        too_long_BKC = (rows.most_B == rows.t)[:, None, None] & ((token_BKC != END) | (place_C >= each))
        total_BKC = rows.total_BK[..., None] + log_prob_BKC.masked_fill(too_long_BKC, IMPOSSIBLE)
        total_BX, token_BX = total_BKC.flatten(1), token_BKC.flatten(1)

        places, totals, said_BX = [], [], token_BX[:, :0]
        for group in range(self.groups):  # each has to know what those before it chose
            used_BKC = (token_BKC[..., None] == said_BX[:, None, None]).sum(-1)
            other_BK1 = (rows.origin_BK != group)[..., None]
            by_BKC = (total_BKC - self.diversity * used_BKC).masked_fill(other_BK1, IMPOSSIBLE)
            by_BW, place_BW = best(by_BKC.flatten(1), each)
            number_W = torch.arange(by_BW.shape[1], device=by_BW.device)
            taken_BW = number_W >= each - rows.finished_BO[:, group, None]
            none_BW = taken_BW | (by_BW == IMPOSSIBLE)
            places.append(place_BW)
            totals.append(total_BX.gather(1, place_BW).masked_fill(none_BW, IMPOSSIBLE))
            said_BX = torch.cat((said_BX, token_BX.gather(1, place_BW).masked_fill(none_BW, -1)), 1)
        place_BW = torch.cat(places, 1)
        return Choice(
            place_BW // token_BKC.shape[-1],
            token_BX.gather(1, place_BW),
            torch.cat(totals, 1),
            log_prob_BKC[..., 0],
        )

"""Stochastic beam search."""

import torch
from torch import Tensor

from seqloom.batch import END
from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.masks import IMPOSSIBLE
from seqloom.decode.noise import Seed, gumbel
from seqloom.decode.search import Search
from seqloom.decode.top import best
from seqloom.decode.walk import Choice, Rows
from seqloom.registry import Count, Natural, register


@register("search", "stochastic")
class Stochastic(Search):
    """Samples without replacement: a beam search over log-probabilities with Gumbel noise.

    With φ the log-probability of a beginning and G what it is ranked by, 0 for the empty one, a token v that follows
    gets (Kool et al. 2019)

        φ_v = φ + log q_v        g_v ~ Gumbel(φ_v)        Z = max_v g_v
        G_v = −log(e^{−G} − e^{−Z} + e^{−g_v})

    so that the greatest G of all that follow a beginning is its own. The K answers with the greatest G are drawn
    from the model without replacement, in this order: the first is a sample, the next a sample of all others, … This
    is exact as long as none is cut at the maximum length; those come last. q is the model's p over the tokens that
    are allowed.

    The noise is a function of the seed, the step, the place in the beam and the token: so a sentence has the same
    answers in any batch.

    width: K, how many answers are drawn.
    seed: another one gives other answers.
    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set, lengths in the training data
        decide.
    unknown: whether an answer may have UNKNOWN in it.
    """

    formula = "log_prob + Gumbel noise, given that the greatest is 0"

    def __init__(
        self,
        *,
        width: Count = 5,
        seed: Seed = 0,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ) -> None:
        super().__init__(Lengths(min_length, max_length, min_ratio, max_ratio), unknown, n_best=width)
        self.width = width
        self.seed = seed

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        log_probs_BKV = log_probs_BKV.double()  # what rounding makes equal would be drawn in the wrong order
        V = log_probs_BKV.shape[-1]
        before_BK = torch.zeros_like(rows.total_BK) if rows.carry_BK is None else rows.carry_BK
        phi_BKV = before_BK[..., None] + torch.log_softmax(log_probs_BKV, -1)
        # Others may have left gaps or not: a row's number is its place among those that are there.
        number_BK = ((rows.total_BK > IMPOSSIBLE).cumsum(1) - 1).clamp(min=0)
        noise_KV = gumbel(self.seed, rows.t, V, self.width).t().to(phi_BKV)  # with more tokens, those before stay
        total_BKV = conditioned(phi_BKV + noise_KV[number_BK], rows.total_BK[..., None].to(phi_BKV))

        too_long_B1V = (rows.most_B == rows.t)[:, None, None] & (torch.arange(V, device=phi_BKV.device) != END)
        likeliest_BK = log_probs_BKV.amax(-1)
        total_BW, place_BW = best(total_BKV.masked_fill(too_long_B1V, IMPOSSIBLE).flatten(1), self.width)
        return Choice(
            place_BW // V,
            place_BW % V,
            total_BW,
            likeliest_BK - likeliest_BK.nan_to_num(nan=0.0, neginf=0.0),  # 0: the greatest G is the row's own
            phi_BKV.flatten(1).gather(1, place_BW),
        )


def conditioned(g: Tensor, most: Tensor) -> Tensor:
    """−log(e^{−most} − e^{−Z} + e^{−g}) with Z the greatest g: Gumbel numbers, given what the greatest of them is.

    Written so that no power overflows (Kool et al. 2019, appendix B.3); −∞ for g = −∞ and where there is no number.
    """
    gap = g - g.amax(-1, keepdim=True)
    v = most - g + torch.log1p(-gap.exp())
    shifted = most - v.clamp(min=0) - torch.log1p(torch.exp(-v.abs()))
    return shifted.nan_to_num(nan=IMPOSSIBLE, neginf=IMPOSSIBLE)

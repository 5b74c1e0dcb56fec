"""Stochastic beam search."""

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from seqloom.batch import EOS
from seqloom.decode.constraints import NEG_INF
from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import BeamState, Candidates
from seqloom.decode.rng import Seed, gumbel
from seqloom.decode.search import Search
from seqloom.decode.top import chunked_topk
from seqloom.registry import register


@register("search", "stochastic_beam")
class StochasticBeam(Search):
    """Stochastic beam search: sampling without replacement, by a beam over log-probabilities with Gumbel noise.

    With φ the log-probability of a partial hypothesis and G its perturbed log-probability (0 for the empty one), a
    continuation by token v gets (Kool et al. 2019)

        φ_v = φ + log q_v        g_v ~ Gumbel(φ_v)        Z = max_v g_v
        G_v = −log(e^{−G} − e^{−Z} + e^{−g_v})

    so the maximum of G_v over all continuations is G. The K hypotheses with the greatest G are samples from the model
    without replacement, in this order: the first is a sample, the second a sample of all others, and so on. This is
    exact if none is truncated at the maximum length; truncated ones come last. q is the model's p, normalized over
    the allowed tokens.

    The noise depends on the seed, the step, the slot in the beam and the token, so a sentence has the same hypotheses
    in any batch.

    beam_size: number of samples per sentence.
    seed: random seed.
    min_length: minimum number of tokens, EOS not counted.
    max_length: maximum number of tokens, EOS not counted; if neither it nor max_length_ratio is set, it is derived
        from the lengths in the training data.
    min_length_ratio: minimum number of tokens relative to the source length.
    max_length_ratio: maximum number of tokens relative to the source length.
    allow_unk: allow UNK in the output.
    """

    score_formula = "log_prob + Gumbel noise, conditioned on a maximum of 0"

    def __init__(
        self,
        *,
        beam_size: PositiveInt = 5,
        seed: Seed = 0,
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ) -> None:
        super().__init__(
            LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio), allow_unk, n_best=beam_size
        )
        self.beam_size = beam_size
        self.seed = seed

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        log_probs_BKV = log_probs_BKV.double()  # rounding to equal values would change the order of the samples
        V = log_probs_BKV.shape[-1]
        phi_BK = torch.zeros_like(beam.total_BK) if beam.carry_BK is None else beam.carry_BK
        phi_BKV = phi_BK[..., None] + torch.log_softmax(log_probs_BKV, -1)
        # Finished rows may leave empty slots or not, so rows are numbered by counting the occupied slots.
        row_BK = ((beam.total_BK > NEG_INF).cumsum(1) - 1).clamp(min=0)
        noise_KV = gumbel(self.seed, beam.t, V, self.beam_size).t().to(phi_BKV)  # independent of V for a token
        total_BKV = conditioned(phi_BKV + noise_KV[row_BK], beam.total_BK[..., None].to(phi_BKV))

        too_long_B1V = (beam.max_length_B == beam.t)[:, None, None] & (torch.arange(V, device=phi_BKV.device) != EOS)
        max_BK = log_probs_BKV.amax(-1)
        total_BW, index_BW = chunked_topk(total_BKV.masked_fill(too_long_B1V, NEG_INF).flatten(1), self.beam_size)
        return Candidates(
            index_BW // V,
            index_BW % V,
            total_BW,
            max_BK - max_BK.nan_to_num(nan=0.0, neginf=0.0),  # 0: the maximum of G_v is the row's G
            phi_BKV.flatten(1).gather(1, index_BW),
        )


def conditioned(g: Tensor, maximum: Tensor) -> Tensor:
    """−log(e^{−maximum} − e^{−Z} + e^{−g}), Z the greatest g: Gumbel numbers conditioned on their maximum.

    Written so that no power overflows (Kool et al. 2019, appendix B.3); −∞ for g = −∞ and if all g are −∞.
    """
    gap = g - g.amax(-1, keepdim=True)
    v = maximum - g + torch.log1p(-gap.exp())
    shifted = maximum - v.clamp(min=0) - torch.log1p(torch.exp(-v.abs()))
    return shifted.nan_to_num(nan=NEG_INF, neginf=NEG_INF)

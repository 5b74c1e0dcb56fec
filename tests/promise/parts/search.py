"""Greedy search with a preference for EOS."""

import torch
from pydantic import NonNegativeInt, PositiveInt

from seqloom import register
from seqloom.batch import EOS
from seqloom.decode import Search
from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import Candidates


@register("search", "eager")
class Eager(Search):
    """Greedy search that ends as soon as EOS is among the k most likely tokens.

    k: number of most likely tokens that are checked for EOS.
    min_length: minimum number of tokens, EOS not counted.
    max_length: maximum number of tokens, EOS not counted; null derives it from the training data.
    min_length_ratio: minimum number of tokens relative to the source length.
    max_length_ratio: maximum number of tokens relative to the source length.
    allow_unk: allow UNK in the output.
    """

    def __init__(
        self,
        *,
        k: PositiveInt = 2,
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ):
        super().__init__(LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio), allow_unk)
        self.k = k

    def select(self, log_probs_BKV, beam):
        top_BKC = log_probs_BKV.topk(min(self.k, log_probs_BKV.shape[-1]))
        ends_BK = ((top_BKC.indices == EOS) & top_BKC.values.isfinite()).any(-1)
        token_BK = torch.where(ends_BK, EOS, log_probs_BKV.argmax(-1))
        log_prob_BK = log_probs_BKV.gather(-1, token_BK[..., None])[..., 0]
        return Candidates(None, token_BK, beam.total_BK + log_prob_BK, log_prob_BK)

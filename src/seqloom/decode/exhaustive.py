"""Exhaustive search."""

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from seqloom.batch import EOS
from seqloom.decode.constraints import NEG_INF
from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import BeamState, Candidates
from seqloom.decode.ranking import HypothesisScorer, LengthPenalty, NonNegativeFloat
from seqloom.decode.search import Search
from seqloom.errors import ConfigError
from seqloom.registry import register

MAX_LOG_PROBS = 10_000_000
"""Maximum number of log-probabilities per sentence and step."""


@register("search", "exhaustive")
class Exhaustive(Search):
    """Exhaustive search: all hypotheses, for tiny problems; its best hypothesis is the global optimum.

    Only partial hypotheses that can't score higher than the ``n_best`` finished ones are pruned. There are about V^n
    partial hypotheses of n tokens; the search raises an error when there are too many.

    n_best: number of hypotheses returned.
    length_penalty: normalization of scores by length: ``none``, ``average`` or ``wu``; see beam search.
    alpha: exponent α of the length penalty ``wu``; default: 0.6.
    coverage_penalty: weight of the coverage penalty for source positions that receive little attention; see beam
        search.
    min_length: minimum number of tokens, EOS not counted.
    max_length: maximum number of tokens, EOS not counted; if neither it nor max_length_ratio is set, it is derived
        from the lengths in the training data.
    min_length_ratio: minimum number of tokens relative to the source length.
    max_length_ratio: maximum number of tokens relative to the source length.
    allow_unk: allow UNK in the output.
    """

    def __init__(
        self,
        *,
        n_best: PositiveInt = 1,
        length_penalty: LengthPenalty = "average",
        alpha: NonNegativeFloat | None = None,
        coverage_penalty: NonNegativeFloat = 0.0,
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ) -> None:
        super().__init__(
            LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio),
            allow_unk,
            n_best=n_best,
            scorer=HypothesisScorer(length_penalty, alpha, coverage_penalty=coverage_penalty),
        )
        self.max_rows = MAX_LOG_PROBS  # so that a batch holds one sentence

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        B, K, V = log_probs_BKV.shape
        token_V = torch.arange(V, device=log_probs_BKV.device)
        too_long_B1V = (beam.max_length_B == beam.t)[:, None, None] & (token_V != EOS)
        total_BKV = (beam.total_BK[..., None] + log_probs_BKV).masked_fill(too_long_B1V, NEG_INF)
        unfinished = int((total_BKV[..., token_V != EOS] > NEG_INF).sum((1, 2)).max())
        if unfinished * V > MAX_LOG_PROBS:
            raise ConfigError(
                f"exhaustive search is for tiny problems: there are {unfinished} partial hypotheses of {beam.t + 1} "
                f"tokens, and the vocabulary has {V} tokens; set a smaller max_length, or use search 'beam'"
            )
        return Candidates(
            torch.arange(K, device=token_V.device).repeat_interleave(V).expand(B, -1),
            token_V.repeat(K).expand(B, -1),
            total_BKV.flatten(1),
            log_probs_BKV.amax(-1),
        )

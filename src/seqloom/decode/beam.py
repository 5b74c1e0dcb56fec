"""Beam search."""

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from seqloom.batch import EOS
from seqloom.decode.constraints import NEG_INF, TokenConstraints
from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import BeamState, Candidates, Select
from seqloom.decode.ranking import HypothesisScorer, LengthPenalty, NonNegativeFloat
from seqloom.decode.required import DynamicBeamAllocation
from seqloom.decode.search import Search
from seqloom.decode.top import chunked_topk
from seqloom.errors import ConfigError
from seqloom.registry import register


@register("search", "beam")
class Beam(Search):
    """Beam search: the K most likely partial hypotheses are extended at every step.

    Of all continuations of a sentence's K partial hypotheses, the K most likely are kept. A hypothesis that reaches
    EOS keeps its slot. The search continues in the remaining slots until there are none, or until no continuation can
    score higher than the ``n_best`` finished hypotheses (so early stopping is exact). At the maximum length a
    hypothesis finishes if EOS is among its K most likely tokens; otherwise it is truncated and ranked after all
    finished ones.

    With ``refill``, the slot of a finished hypothesis goes to the next of the 2 K most likely continuations that does
    not end. So K partial hypotheses are extended until K are finished.

        score = log p(y, EOS | source) / divisor(n) + β Σ_s log min(Σ_t w_ts, 1),        n = |y| + 1
        none: divisor = 1        average: divisor = n        wu: divisor = ((5 + n) / 6)^α        (Wu et al. 2016)

    Lexical constraints (``require``) are satisfied by dynamic beam allocation (Post and Vilar 2018).

    beam_size: hypotheses kept per sentence.
    n_best: number of hypotheses returned, at most beam_size.
    refill: give the slots of finished hypotheses to unfinished ones; default: false, except in an engine that always
        refills.
    length_penalty: normalization of scores by length: ``none``, ``average`` or ``wu``.
    alpha: exponent α of the length penalty ``wu``; default: 0.6.
    coverage_penalty: weight β of the coverage penalty for source positions s that receive little attention from all
        target steps t (Wu et al. 2016); it needs attention to the source, and ranks finished hypotheses only.
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
        beam_size: PositiveInt = 5,
        n_best: PositiveInt = 1,
        refill: bool | None = None,
        length_penalty: LengthPenalty = "average",
        alpha: NonNegativeFloat | None = None,
        coverage_penalty: NonNegativeFloat = 0.0,
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ) -> None:
        if n_best > beam_size:
            raise ConfigError(
                f"n_best={n_best} is greater than beam_size={beam_size}: set beam_size={n_best} or more"
            )
        super().__init__(
            LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio),
            allow_unk,
            n_best=n_best,
            scorer=HypothesisScorer(length_penalty, alpha, coverage_penalty=coverage_penalty),
        )
        self.beam_size = self.max_rows = beam_size
        self.refill = refill

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        # The best candidates overall are among the best of each row, so one top-k over V per row is enough.
        candidates = 2 * self.beam_size if self.refill else self.beam_size
        log_prob_BKW, token_BKW = chunked_topk(log_probs_BKV, candidates)
        best_BK = log_prob_BKW[..., 0]
        rank_W = torch.arange(token_BKW.shape[-1], device=token_BKW.device)
        too_long_BKW = (beam.max_length_B == beam.t)[:, None, None] & (
            (token_BKW != EOS) | (rank_W >= self.beam_size)
        )
        total_BKW = beam.total_BK[..., None] + log_prob_BKW.masked_fill(too_long_BKW, NEG_INF)
        total_BW, index_BW = chunked_topk(total_BKW.flatten(1), candidates)
        token_BW = token_BKW.flatten(1).gather(1, index_BW)
        selected_BW = self._selected((token_BW == EOS) & (total_BW > NEG_INF), beam.finished_BO)
        return Candidates(
            index_BW // token_BKW.shape[-1], token_BW, total_BW.masked_fill(~selected_BW, NEG_INF), best_BK
        )

    def _selected(self, is_eos_BW: Tensor, finished_B1: Tensor) -> Tensor:
        """Which of the candidates, best first, are kept; ``finished``: the number of finished hypotheses."""
        rank_W = torch.arange(is_eos_BW.shape[1], device=is_eos_BW.device)
        if not self.refill:
            return rank_W < self.beam_size - finished_B1
        finishes_BW = is_eos_BW & (rank_W < self.beam_size)
        done_B1 = finished_B1 + finishes_BW.sum(1, keepdim=True) >= self.beam_size
        return finishes_BW | ~is_eos_BW & ((~is_eos_BW).cumsum(1) <= self.beam_size) & ~done_B1

    def select_function(self, constraints: TokenConstraints) -> Select:
        if not constraints.requires:
            return self.select
        if self.refill:
            raise ConfigError("refill=true can't be combined with require (lexical constraints): remove refill")
        return DynamicBeamAllocation(constraints.required or [], self.beam_size).select

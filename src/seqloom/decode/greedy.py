"""Greedy search."""

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import BeamState, Candidates
from seqloom.decode.search import Search
from seqloom.registry import register


@register("search", "greedy")
class Greedy(Search):
    """Greedy search: the most likely token at every step.

        y_t = argmax_v p(v | y_1 … y_{t−1}, source)

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
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ) -> None:
        super().__init__(LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio), allow_unk)

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        log_prob_BK, token_BK = log_probs_BKV.max(-1)
        return Candidates(None, token_BK, beam.total_BK + log_prob_BK, log_prob_BK)

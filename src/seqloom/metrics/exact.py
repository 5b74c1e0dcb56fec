"""Exact match of whole sequences, and the sequence error rate, 100 minus exact match."""

from collections.abc import Sequence

import numpy as np

from seqloom.metrics.base import EvaluationData, Floats, Metric, rate
from seqloom.metrics.error_rates import symbols
from seqloom.registry import register


@register("metric", "exact_match")
class ExactMatch(Metric):
    """Exact match: percentage of predictions that equal one of their references.

    Runs of spaces count as one space, and leading and trailing spaces are ignored.

    lowercase: ignore case.
    """

    name = "exact_match"
    higher_is_better = True

    def __init__(self, *, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    def statistics(self, data: EvaluationData) -> Floats:
        rows = [[self._is_match(hypothesis, references), True] for hypothesis, references in data.pairs(self.name)]
        return np.array(rows, dtype=np.float64)

    def value(self, totals: Floats) -> Floats:
        return rate(totals)

    def _is_match(self, hypothesis: str, references: Sequence[str]) -> bool:
        return symbols(hypothesis, self.lowercase) in [symbols(reference, self.lowercase) for reference in references]


@register("metric", "sequence_error_rate")
class SequenceErrorRate(ExactMatch):
    """Sequence error rate: percentage of predictions that equal none of their references (100 − exact match).

    Grapheme-to-phoneme papers call this the word error rate, as each of their sequences is a word; speech
    recognition calls it the sentence error rate.

    lowercase: ignore case.
    """

    name = "sequence_error_rate"
    higher_is_better = False

    def value(self, totals: Floats) -> Floats:
        return 100 - rate(totals)

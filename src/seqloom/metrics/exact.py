"""Right or wrong as a whole: exact match, and what is left of it to 100, the word error rate of pronunciation."""

from collections.abc import Sequence

import numpy as np

from seqloom.metrics.base import Answers, Floats, Metric, rate
from seqloom.metrics.symbols import symbols
from seqloom.registry import register


@register("metric", "exact")
class ExactMatch(Metric):
    """Exact match: the percentage of answers that equal one of their references.

    Spaces only separate: two in a row, or some at the ends, make no difference.

    lowercase: whether letters' case makes no difference.
    """

    name = "exact"
    higher_is_better = True

    def __init__(self, *, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    def statistics(self, answers: Answers) -> Floats:
        rows = [[self._is_right(answer, references), True] for answer, references in answers.pairs(self.name)]
        return np.array(rows, dtype=np.float64)

    def value(self, totals: Floats) -> Floats:
        return rate(totals)

    def _is_right(self, answer: str, references: Sequence[str]) -> bool:
        return symbols(answer, self.lowercase) in [symbols(reference, self.lowercase) for reference in references]


@register("metric", "wer")
class WordErrorRate(ExactMatch):
    """Word error rate as for pronunciation: the percentage of words, which are whole answers, that are wrong.

    WER = 100 − exact match. It is right to give any of a word's pronunciations. (Speech recognition's rate of edited
    words in a sentence is ``ser``, whose symbols are the words there.)

    lowercase: whether letters' case makes no difference.
    """

    name = "wer"
    higher_is_better = False

    def value(self, totals: Floats) -> Floats:
        return 100 - rate(totals)

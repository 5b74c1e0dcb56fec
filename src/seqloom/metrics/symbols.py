"""The symbol error rate: edits over the symbols of the reference."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from rapidfuzz.distance import Levenshtein

from seqloom.metrics.base import Answers, Floats, Metric, rate
from seqloom.registry import register


def symbols(text: str, lowercase: bool = False) -> list[str]:
    """What stands between spaces. (Only between plain ones: a no-break space is part of what was written.)"""
    return [symbol for symbol in (text.lower() if lowercase else text).split(" ") if symbol]


@register("metric", "ser")
class SymbolErrorRate(Metric):
    """Symbol error rate: insertions, deletions and substitutions per 100 symbols of the references.

    SER = 100 · Σ edits / Σ symbols of the reference. Of several references the one with the fewest edits counts, and
    among equals the longest. Where the symbols are a sentence's words, this is speech recognition's word error rate.

    unit: what is counted: a "symbol" is what stands between spaces (a phoneme, a word); a "character" is one letter
        or space.
    lowercase: whether letters' case makes no difference.
    """

    name = "ser"
    higher_is_better = False

    def __init__(self, *, unit: Literal["symbol", "character"] = "symbol", lowercase: bool = False) -> None:
        self.unit, self.lowercase = unit, lowercase

    def statistics(self, answers: Answers) -> Floats:
        rows = []
        for answer, references in answers.pairs(self.name):
            given = self._cut(answer)
            wanted = [self._cut(reference) for reference in references]
            rows.append(min(((Levenshtein.distance(given, w), len(w)) for w in wanted), key=lambda e: (e[0], -e[1])))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: Floats) -> Floats:
        return rate(totals)

    def _cut(self, text: str) -> Sequence[str]:
        cut = symbols(text, self.lowercase)
        return cut if self.unit == "symbol" else " ".join(cut)

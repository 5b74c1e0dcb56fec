"""Accuracy of the first symbols."""

import numpy as np

from seqloom import register
from seqloom.metrics import Metric
from seqloom.metrics.base import rate


@register("metric", "prefix_match")
class PrefixMatch(Metric):
    """The percentage of hypotheses that start with the same symbols as a reference.

    symbols: number of symbols to compare.
    """

    name = "prefix_match"
    higher_is_better = True

    def __init__(self, *, symbols: int = 2):
        self.symbols = symbols

    def statistics(self, data):
        rows = []
        for hypothesis, references in data.pairs(self.name):
            prefix = hypothesis.split()[: self.symbols]
            rows.append([any(prefix == r.split()[: self.symbols] for r in references), True])
        return np.array(rows, dtype=np.float64)

    def value(self, totals):
        return rate(totals)

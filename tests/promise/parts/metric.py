"""How often the beginning is right."""

import numpy as np

from seqloom import register
from seqloom.metrics import Metric
from seqloom.metrics.base import rate


@register("metric", "beginning")
class Beginning(Metric):
    """The percentage of answers whose first symbols are those of a reference.

    symbols: how many.
    """

    name = "beginning"
    higher_is_better = True

    def __init__(self, *, symbols: int = 2):
        self.symbols = symbols

    def statistics(self, answers):
        rows = []
        for answer, references in answers.pairs(self.name):
            first = answer.split()[: self.symbols]
            rows.append([any(first == r.split()[: self.symbols] for r in references), True])
        return np.array(rows, dtype=np.float64)

    def value(self, totals):
        return rate(totals)

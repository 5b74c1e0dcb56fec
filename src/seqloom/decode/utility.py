"""How alike answers are: every one judged as if each of the others were right."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import OptionError

if TYPE_CHECKING:
    from seqloom.metrics import Metric

Floats = NDArray[np.float64]
Utility = Callable[[str, str], float]
"""How good a text is if another is what is right."""
LONGEST = 4


def ngram_f(answers: Sequence[Sequence[int]]) -> Floats:
    """U × U: the F-score of the tokens that two answers share, of their pairs, triples and fours, on average.

        F_n(i, j) = 2 Σ_g min(count_i(g), count_j(g)) / Σ_g (count_i(g) + count_j(g)), over all g of n tokens

    The average is over those n for which one of the two has any; two empty answers are alike.
    """
    U = len(answers)
    total, orders = np.zeros((U, U)), np.zeros((U, U))
    for n in range(1, LONGEST + 1):
        grams = [Counter(tuple(answer[i : i + n]) for i in range(len(answer) - n + 1)) for answer in answers]
        column = {gram: g for g, gram in enumerate(dict.fromkeys(gram for counts in grams for gram in counts))}
        counts = np.zeros((U, len(column)))
        for row, counted in enumerate(grams):
            counts[row, [column[gram] for gram in counted]] = list(counted.values())
        shared = np.stack([np.minimum(one, counts).sum(1) for one in counts])
        both = counts.sum(1)[:, None] + counts.sum(1)
        total += np.divide(2 * shared, both, out=np.zeros_like(both), where=both > 0)
        orders += both > 0
    return np.divide(total, orders, out=np.ones_like(total), where=orders > 0)


def by_metric(metric: "Metric", texts: Sequence[str]) -> Floats:
    """U × U: the metric's value of each text with each as its reference, negative where less is better."""
    from seqloom.metrics import Answers

    U = len(texts)
    answers = Answers(
        hypotheses=[text for text in texts for _ in texts],
        references=[[text] for _ in texts for text in texts],
        sources=[""] * U**2,
        source_lengths=np.zeros(U**2, dtype=np.int64),
    )
    value = metric.value(metric.statistics(answers)).reshape(U, U)
    return value if metric.higher_is_better else -value


def by_function(utility: Utility, texts: Sequence[str]) -> Floats:
    """U × U: a function's value of each text with each as what is right."""
    return np.array([[utility(text, right) for right in texts] for text in texts], dtype=np.float64)


def check_text(metric: "Metric") -> None:
    """Refuse a metric that does not compare texts."""
    if metric.needs != "text":
        raise OptionError(f"mbr compares answers with each other, and {metric.name} does not compare texts")

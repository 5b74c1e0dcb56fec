"""Utilities for minimum Bayes risk decoding: every hypothesis compared with every other as its pseudo-reference."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.metrics import Metric

Floats = NDArray[np.float64]
Utility = Callable[[str, str], float]
"""The quality of a text, its first argument, given a reference, its second."""
MAX_ORDER = 4


def ngram_f(hypotheses: Sequence[Sequence[int]]) -> Floats:
    """U × U: the F-score of the n-grams that two hypotheses share, averaged over n = 1 … 4.

        F_n(i, j) = 2 Σ_g min(count_i(g), count_j(g)) / Σ_g (count_i(g) + count_j(g)), over all n-grams g

    The average is over those n for which at least one of the two has n-grams; two empty hypotheses score 1.
    """
    U = len(hypotheses)
    total, orders = np.zeros((U, U)), np.zeros((U, U))
    for n in range(1, MAX_ORDER + 1):
        ngrams = [Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)) for tokens in hypotheses]
        column = {ngram: g for g, ngram in enumerate(dict.fromkeys(ngram for counts in ngrams for ngram in counts))}
        counts = np.zeros((U, len(column)))
        for row, counter in enumerate(ngrams):
            counts[row, [column[ngram] for ngram in counter]] = list(counter.values())
        shared = np.stack([np.minimum(one, counts).sum(1) for one in counts])
        both = counts.sum(1)[:, None] + counts.sum(1)
        total += np.divide(2 * shared, both, out=np.zeros_like(both), where=both > 0)
        orders += both > 0
    return np.divide(total, orders, out=np.ones_like(total), where=orders > 0)


def metric_utility(metric: "Metric", texts: Sequence[str]) -> Floats:
    """U × U: the metric's value for each text with each as its reference, negated if lower is better."""
    from seqloom.metrics import EvaluationData

    U = len(texts)
    data = EvaluationData(
        hypotheses=[text for text in texts for _ in texts],
        references=[[text] for _ in texts for text in texts],
        sources=[""] * U**2,
        source_lengths=np.zeros(U**2, dtype=np.int64),
    )
    value = metric.value(metric.statistics(data)).reshape(U, U)
    return value if metric.higher_is_better else -value


def function_utility(utility: Utility, texts: Sequence[str]) -> Floats:
    """U × U: a function's value for each text with each as its reference."""
    return np.array([[utility(text, reference) for reference in texts] for text in texts], dtype=np.float64)


def require_text_metric(metric: "Metric") -> None:
    """Raise an error for a metric that does not compare texts."""
    if metric.needs != "text":
        raise ConfigError(
            f"search 'mbr' needs a metric that compares texts, and {metric.name} does not: use another, like chrf"
        )

"""Sums of statistics over random selections: bootstrap resamples, and two systems with predictions exchanged.

Both are the matrix product of a random matrix and the N × k statistics, computed in slices to bound memory.
"""

from collections.abc import Iterator

import numpy as np

from seqloom.metrics.base import Floats

CELLS = 1_000_000
"""Maximum number of elements of the random matrix in memory."""


def bootstrap_totals(statistics: Floats, resamples: int, *, seed: int) -> Floats:
    """Sums, resamples × k, over N examples drawn with replacement (Efron 1979)."""
    n = len(statistics)
    random = np.random.default_rng(seed)
    totals = [np.empty((0, statistics.shape[1]))]
    for rows in _slices(resamples, n):
        drawn = random.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        with np.errstate(invalid="ignore"):  # an infinite loss that was not drawn: 0 · ∞ makes that interval NaN
            totals.append(counts.astype(np.float64) @ statistics)
    return np.concatenate(totals)


def exchanged_totals(a: Floats, b: Floats, trials: int, *, seed: int) -> tuple[Floats, Floats]:
    """Sums, trials × k, of two systems whose predictions for every example are exchanged with probability ½.

    With the coins c of a trial: A' = Σ b + c (a − b) and B' = Σ a − c (a − b).
    """
    difference = a - b
    difference = difference[difference.any(1)]  # where both systems are equal, an exchange changes nothing
    random = np.random.default_rng(seed)
    moved = [np.empty((0, a.shape[1]))]
    for rows in _slices(trials, len(difference)):
        coins = random.integers(2, size=(rows, len(difference)), dtype=np.uint8)
        moved.append(coins.astype(np.float64) @ difference)
    changes = np.concatenate(moved)
    return b.sum(0) + changes, a.sum(0) - changes


def _slices(total: int, width: int) -> Iterator[int]:
    size = max(1, CELLS // max(1, width))
    for start in range(0, total, size):
        yield min(size, total - start)

"""Sums of statistics over other choices of examples: bootstrap resamples, and two systems with answers exchanged.

Both are products of a random matrix with the N × k statistics, made in slices so that memory stays bounded.
"""

from collections.abc import Iterator

import numpy as np

from seqloom.metrics.base import Floats

CELLS = 1_000_000
"""How many cells of the random matrix are in memory at a time."""


def bootstrap_totals(statistics: Floats, resamples: int, *, seed: int) -> Floats:
    """Sums, resamples × k, over as many examples as there are, drawn with replacement (Efron 1979)."""
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
    """Sums, trials × k, of two systems whose answers to every example are exchanged or not, by a fair coin.

    With the coins c of a trial: A' = Σ b + c (a − b) and B' = Σ a − c (a − b).
    """
    difference = a - b
    difference = difference[difference.any(1)]  # where both systems did the same, a coin changes nothing
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

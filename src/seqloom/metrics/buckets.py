"""Buckets of source lengths: bounds chosen from the data, and the bucket of every example."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError

MAX_STEPS = 6
"""Nearly all lengths fit into this many steps; the lengths outside add at most two buckets."""


def choose_bounds(lengths: NDArray[np.integer]) -> list[int]:
    """The maximum length of every bucket but the last, which is open-ended: multiples of 1, 2, 5, 10, 20, 50, …

    The step is the smallest of these that covers nearly all lengths with few buckets. A bucket with too few examples
    for a meaningful value is merged with the next one.
    """
    low, high = np.quantile(lengths, [0.02, 0.98])
    step = next(s for e in range(20) for s in (10**e, 2 * 10**e, 5 * 10**e) if (high - low) <= s * MAX_STEPS)
    min_examples = max(10, len(lengths) // 50)
    bounds: list[int] = []
    done = 0
    for bound in range(step * int(low // step), int(high) + step, step):
        inside = int((lengths <= bound).sum())
        if inside - done >= min_examples and len(lengths) - inside >= min_examples:
            bounds.append(bound)
            done = inside
    return bounds


def check_bounds(bounds: Sequence[int]) -> list[int]:
    """The given bounds as a list; they must be increasing and at least 1."""
    if any(b < 1 for b in bounds) or any(b <= a for a, b in pairwise(bounds)):
        raise ConfigError(f"buckets={list(bounds)} is invalid: give increasing lengths, such as [5, 10, 20]")
    return list(bounds)


def bucket_of(lengths: NDArray[np.integer], bounds: Sequence[int]) -> NDArray[np.intp]:
    """The bucket index of every length; bucket 0 holds all lengths up to the first bound."""
    return np.searchsorted(np.asarray(bounds, dtype=np.int64), lengths, side="left")

"""Buckets of source lengths: bounds chosen from the data, and which example is in which."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import OptionError

SPAN = 6
"""So many steps cover nearly all lengths; with what is outside there are two buckets more at most."""


def choose_bounds(lengths: NDArray[np.integer]) -> list[int]:
    """The greatest length of every bucket but the last, which is open: multiples of 1, 2, 5, 10, 20, 50, …

    The step is the smallest of these that covers nearly all lengths with few buckets; a bucket with too few examples
    to say anything goes together with the next one.
    """
    low, high = np.quantile(lengths, [0.02, 0.98])
    step = next(s for e in range(20) for s in (10**e, 2 * 10**e, 5 * 10**e) if (high - low) <= s * SPAN)
    fewest = max(10, len(lengths) // 50)
    bounds: list[int] = []
    done = 0
    for bound in range(step * int(low // step), int(high) + step, step):
        inside = int((lengths <= bound).sum())
        if inside - done >= fewest and len(lengths) - inside >= fewest:
            bounds.append(bound)
            done = inside
    return bounds


def check_bounds(bounds: Sequence[int]) -> list[int]:
    """Bounds that a person gave: rising, from 1 on."""
    if any(b < 1 for b in bounds) or any(b <= a for a, b in pairwise(bounds)):
        raise OptionError(f"buckets: {list(bounds)} are no rising lengths, like 5, 10, 20")
    return list(bounds)


def bucket_of(lengths: NDArray[np.integer], bounds: Sequence[int]) -> NDArray[np.intp]:
    """The number of every length's bucket: 0 up to the first bound, and so on."""
    return np.searchsorted(np.asarray(bounds, dtype=np.int64), lengths, side="left")

"""Search time by output length: the cases ``lengths`` of ``decode.py``, with seqloom only.

Every length has a separate worker, and all workers take turns in each round. The curve

    ms(n) = c + a·n + b·n²

is fitted to the medians by least squares of the relative errors: c is the cost of a sentence before its first token,
and token n costs a + 2·b·n. b is 0 if the cost per token does not depend on n, and the curve fits if that cost grows
linearly.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from harness.driver import Worker, interleaved
from harness.environment import BENCHMARKS
from harness.results import Length

LENGTHS = (10, 20, 50, 100, 200, 500, 1000)
ROW = 200
"""Minimum number of tokens generated per timed turn: short outputs are repeated, long ones are not."""


def times_by_length(
    case: str, description: dict[str, Any], *, rounds: int, threads: int, progress: Callable[[], object]
) -> list[Length]:
    """Return the rows of a case; ``description`` holds all arguments of the worker except ``steps``."""
    with ExitStack() as stack:
        turns = {}
        for tokens in LENGTHS:
            script = BENCHMARKS / "decode_seqloom.py"
            worker = stack.enter_context(Worker(sys.executable, script, threads=threads))
            worker.ask("make", **description, steps=tokens)
            turns[str(tokens)] = partial(worker.turn, untimed=1, timed=max(1, ROW // tokens))
        times = interleaved(turns, rounds=rounds, progress=progress)
    medians = [median(times[str(tokens)]) for tokens in LENGTHS]
    return [Length(case, n, round(ms, 2), round(ms / n, 4)) for n, ms in zip(LENGTHS, medians, strict=True)]


def growth(rows: Sequence[Length]) -> str:
    """Describe the fitted curve."""
    n, ms = np.array([[row.tokens, row.ms] for row in rows]).T
    relative = np.stack((np.ones_like(n), n, n**2)) / ms
    (c, a, b), *_ = np.linalg.lstsq(relative.T, np.ones_like(n), rcond=None)
    error = abs((c, a, b) @ relative - 1).max()
    return (
        f"{rows[0].case}: ms = {c:.2f} + {a:.4f}·n {'−' if b < 0 else '+'} {abs(b):.7f}·n², to within {error:.1%}; "
        f"token {n[-1]:,.0f} costs {(a + 2 * b * n[-1]) / (a + 2 * b * n[0]):.2f} times what token {n[0]:.0f} costs."
    )

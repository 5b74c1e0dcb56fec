"""How the time of an answer grows with its length: of ``decode.py``, by seqloom alone.

Every length has a worker of its own, and in each round all have their turn. To the medians the curve

    ms(n) = c + a·n + b·n²

is fitted, with the least squares of its relative errors: c is what a sentence costs before its first token, and
token n costs a + 2·b·n. If this does not grow with n, b is 0; if it grows linearly, the curve fits.
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
"""Tokens that a turn writes at least while it is timed: a short answer many times, a long one once."""


def times_by_length(
    case: str, description: dict[str, Any], *, rounds: int, threads: int, progress: Callable[[], object]
) -> list[Length]:
    """The rows of a case; ``description`` says all of it but how many steps an answer has."""
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
    """The fitted curve in words."""
    n, ms = np.array([[row.tokens, row.ms] for row in rows]).T
    relative = np.stack((np.ones_like(n), n, n**2)) / ms
    (c, a, b), *_ = np.linalg.lstsq(relative.T, np.ones_like(n), rcond=None)
    error = abs((c, a, b) @ relative - 1).max()
    return (
        f"{rows[0].case}: ms = {c:.2f} + {a:.4f}·n {'−' if b < 0 else '+'} {abs(b):.7f}·n², to within {error:.1%}; "
        f"token {n[-1]:,.0f} costs {(a + 2 * b * n[-1]) / (a + 2 * b * n[0]):.2f} times what token {n[0]:.0f} costs."
    )

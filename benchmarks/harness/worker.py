"""A worker's end of the pipe: it does what the driver asks, which mostly is to make a case and to run it in turns.

It runs under every peer's Python, so it needs nothing but the standard library.
"""

import ctypes
import json
import os
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Run = Callable[[int], object]
"""Runs a case once, on input number i."""
UNTIMED, TIMED = 2, 5
PR_SET_PDEATHSIG = 1
"""Linux's request to be sent a signal when the parent dies."""


def serve(make: Callable[..., Run]) -> None:
    """Make one case, then run it whenever its turn comes.

    make: from a case's description to what runs it. Memory counts from before this call on.
    """
    case = _Case(make)
    answer({"make": case.make, "turn": case.turn, "result": case.result, "memory": case.memory})


def answer(requests: Mapping[str, Callable[..., object]]) -> None:
    """Answer the driver's requests, one JSON object a line, until it closes the pipe.

    requests: what it may ask for; the answers must be fit for JSON.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # work that nobody waits for would disturb the next
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a toolkit prints must not end up between the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            given = {"value": requests[request["name"]](**request["arguments"])}
        except Exception:
            given = {"error": traceback.format_exc()}
        print(json.dumps(given), file=answers, flush=True)


class _Case:
    """The case that a worker has made, its time and its memory."""

    def __init__(self, make: Callable[..., Run]) -> None:
        self._make = make

    def make(self, **description: Any) -> None:
        self._before = _megabytes("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        self._run = self._make(**description)

    def turn(self, number: int, untimed: int = UNTIMED, timed: int = TIMED) -> float:
        """Milliseconds of one run, the median of a row of them behind some that are not timed.

        The other workers have just had the machine, their threads are still going to sleep, and this one's memory and
        caches are cold: work that is done in rows is measured in rows.
        """
        times = [self._timed(number) for _ in range(untimed + timed)]
        return statistics.median(times[untimed:])

    def _timed(self, number: int) -> float:
        start = time.perf_counter()
        self._run(number)
        return (time.perf_counter() - start) * 1e3

    def result(self, number: int) -> object:
        """What a run on an input gives, by which a driver sees whether all do the same."""
        return self._run(number)

    def memory(self) -> float:
        """The peak since the case was made, above what the process held before."""
        return _megabytes("VmHWM") - self._before


def _megabytes(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/self/status has no {field}")

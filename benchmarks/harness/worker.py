"""The worker's end of the pipe: handles the requests of the driver, mostly to build a case and to run it in turns.

It runs in the environment of every peer, so it uses only the standard library.
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
"""Option of Linux's prctl: send this process a signal when its parent dies."""


def serve(make: Callable[..., Run]) -> None:
    """Build one case, then run it on request.

    make: takes the description of a case and returns the function that runs it. Memory is measured from its call on.
    """
    case = _Case(make)
    answer({"make": case.make, "turn": case.turn, "result": case.result, "memory": case.memory})


def answer(requests: Mapping[str, Callable[..., object]]) -> None:
    """Handle the driver's requests, one JSON object per line, until it closes the pipe.

    requests: handlers by the name of the request; their results must be serializable as JSON.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # abandoned work would disturb the next measurement
    responses = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a toolkit prints must not mix with the responses
    for line in sys.stdin:
        request = json.loads(line)
        try:
            response = {"value": requests[request["name"]](**request["arguments"])}
        except Exception:
            response = {"error": traceback.format_exc()}
        print(json.dumps(response), file=responses, flush=True)


class _Case:
    """The case that a worker has built; measures its time and memory."""

    def __init__(self, make: Callable[..., Run]) -> None:
        self._make = make

    def make(self, **description: Any) -> None:
        self._before = _megabytes("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        self._run = self._make(**description)

    def turn(self, number: int, untimed: int = UNTIMED, timed: int = TIMED) -> float:
        """Return the median milliseconds of several runs, after some untimed ones.

        At the beginning of a turn, threads of the other workers may still be active, and the caches are cold. In
        practice such work is repeated, so the warm state is what is measured.
        """
        times = [self._timed(number) for _ in range(untimed + timed)]
        return statistics.median(times[untimed:])

    def _timed(self, number: int) -> float:
        start = time.perf_counter()
        self._run(number)
        return (time.perf_counter() - start) * 1e3

    def result(self, number: int) -> object:
        """Return the result of a run, so that the driver can compare participants."""
        return self._run(number)

    def memory(self) -> float:
        """Return the peak memory since the case was built, minus the memory before, in megabytes."""
        return _megabytes("VmHWM") - self._before


def _megabytes(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/self/status has no {field}")

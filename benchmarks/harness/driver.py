"""The driver: starts workers and lets them take turns, so that noise of the machine affects all of them alike."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Turn = Callable[[int], float]
"""Runs a participant in round i; returns its time in milliseconds, or its speed."""


class WorkerError(RuntimeError):
    """A worker raised an exception or died."""


class Worker:
    """A separate process that handles one request at a time; a context manager that ends it.

    python: the Python to run it with.
    script: a file that calls ``serve`` or ``answer`` of ``harness.worker``.
    threads: number of threads, equal for all participants.
    variables: additional environment variables.
    """

    def __init__(
        self, python: Path | str, script: Path, *, threads: int, variables: Mapping[str, str] | None = None
    ) -> None:
        self.name = script.stem
        limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS")}
        # A new session: only the driver receives Ctrl-C, and then ends its workers.
        self._process = subprocess.Popen(
            [python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **limits, **(variables or {})},
            start_new_session=True,
        )

    def ask(self, name: str, **arguments: Any) -> Any:
        """Send a request to the worker, and wait for its response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"{self.name} died with exit code {self._process.wait()}")
        response = json.loads(line)
        if "error" in response:
            raise WorkerError(f"{self.name} failed:\n{response['error']}")
        return response["value"]

    def turn(self, number: int, **row: int) -> float:
        """Median milliseconds of a run on input ``number``; ``row``: numbers of ``untimed`` and ``timed`` runs."""
        return float(self.ask("turn", number=number, **row))

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def interleaved(
    participants: Mapping[str, Turn], *, rounds: int, warm_up: int = 2, progress: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """Run all participants in turns, every other round in reverse order; return their figures by round.

    warm_up: untimed rounds before the first timed one.
    progress: called after every round.
    """
    names = list(participants)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm_up, rounds):
        for name in names if number % 2 else reversed(names):
            figure = participants[name](max(number, 0))
            if number >= 0:
                figures[name].append(figure)
        progress()
    return figures

"""The driver's end of the pipe: workers that take turns, so that all see the same machine and its noise."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Turn = Callable[[int], float]
"""What one participant does in round i, and its figure: how many milliseconds it took, or how fast it was."""


class WorkerError(RuntimeError):
    """A worker failed: its traceback, or that it died."""


class Worker:
    """A process of its own that does what it is asked, one thing at a time; it ends with its ``with`` block.

    python: whose environment it runs in.
    script: a file that calls ``serve`` or ``answer`` of ``harness.worker``.
    threads: of its computations, the same for all that are compared.
    variables: further ones of its environment.
    """

    def __init__(
        self, python: Path | str, script: Path, *, threads: int, variables: Mapping[str, str] | None = None
    ) -> None:
        self.name = script.stem
        limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS")}
        # In a session of its own: Ctrl-C is for the driver, which then ends its workers in good order.
        self._process = subprocess.Popen(
            [python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **limits, **(variables or {})},
            start_new_session=True,
        )

    def ask(self, name: str, **arguments: Any) -> Any:
        """Have the worker do something, and wait for what it answers."""
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
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name} failed:\n{answer['error']}")
        return answer["value"]

    def turn(self, number: int, **row: int) -> float:
        """Milliseconds of one run on input ``number``; row: how many runs are ``untimed``, and ``timed``."""
        return float(self.ask("turn", number=number, **row))

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def interleaved(
    participants: Mapping[str, Turn], *, rounds: int, warm_up: int = 2, progress: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """The figures of every participant, round by round; in a round each has one turn, in every other one backwards.

    warm_up: rounds before the first that counts.
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

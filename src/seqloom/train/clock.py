"""Measures training speed, to log it and to estimate the time left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Lap(NamedTuple):
    """Measurements between two log lines.

    seconds: elapsed time. data_wait_seconds: the part of it spent waiting for batches. tokens: target tokens.
    """

    seconds: float
    data_wait_seconds: float
    tokens: int


class Clock:
    """Measures the time spent on updates.

    update: number of updates when it starts.

    tokens: target tokens since the last log line; the trainer's own count can include tokens from before a run was
        resumed. per_update: seconds per update, as a moving average.
    """

    def __init__(self, update: int) -> None:
        self.last = time.monotonic()
        self.data_wait_seconds = 0.0
        self.tokens = 0
        self.update = update
        self.per_update = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context manager whose time is not counted as training."""
        start = time.monotonic()
        yield
        self.last += time.monotonic() - start

    def lap(self, update: int, data_wait_seconds: float) -> Lap:
        """The measurements since the last call.

        data_wait_seconds: total time spent waiting for batches so far.
        """
        now = time.monotonic()
        lap = Lap(now - self.last, data_wait_seconds - self.data_wait_seconds, self.tokens)
        per_update = lap.seconds / max(1, update - self.update)
        self.per_update = 0.7 * self.per_update + 0.3 * per_update if self.per_update else per_update
        self.last, self.tokens, self.update = now, 0, update
        self.data_wait_seconds = data_wait_seconds
        return lap

"""How long updates take, and how long the rest of them will."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Lap(NamedTuple):
    """What was done between two reports: seconds, those of them waited for batches, and tokens."""

    seconds: float
    waited: float
    tokens: int


class Clock:
    """Time spent on updates, between reports.

    update: where it starts.

    tokens: what was learned since the last report; not the loop's own count, which goes back beyond where a run was
    resumed. per_update: seconds, of late.
    """

    def __init__(self, update: int) -> None:
        self.last = time.monotonic()
        self.waited = 0.0
        self.tokens = 0
        self.update = update
        self.per_update = 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What happens within is no training."""
        start = time.monotonic()
        yield
        self.last += time.monotonic() - start

    def lap(self, update: int, waited: float) -> Lap:
        """What was done since the last report; waited: for batches, all in all."""
        now = time.monotonic()
        lap = Lap(now - self.last, waited - self.waited, self.tokens)
        per_update = lap.seconds / max(1, update - self.update)
        self.per_update = 0.7 * self.per_update + 0.3 * per_update if self.per_update else per_update
        self.last, self.waited, self.tokens, self.update = now, waited, 0, update
        return lap

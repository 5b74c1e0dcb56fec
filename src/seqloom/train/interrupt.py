"""Handling of Ctrl-C: training stops after the current update, not in the middle of it."""

import signal
import threading
from types import FrameType, TracebackType


class Interrupts:
    """A context in which the first SIGINT or SIGTERM only sets ``stop_requested``; a second one acts as usual."""

    def __init__(self) -> None:
        self.stop_requested = False
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():  # Python allows signal handlers only here
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._request_stop)
        return self

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_requested = True
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

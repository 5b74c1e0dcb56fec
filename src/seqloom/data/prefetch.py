"""The next batches, made in the background while the model computes."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """An iterator whose items are made in a thread of their own, a few ahead.

    Use it in a ``with`` block: leaving it, by Ctrl-C too, ends the thread. What making an item raises is raised where
    the item is asked for.

    items: what makes them, e.g. ``(corpus.batch(indices) for indices in plan)``.
    ahead: how many may wait to be used.
    waited: seconds that the user of the items has waited for them, so far.
    """

    def __init__(self, items: Iterable[T], *, ahead: int = 4) -> None:
        self.waited = 0.0
        self._items = items
        self._ahead = ahead
        self._made: deque[T] = deque()
        self._error: BaseException | None = None
        self._ended = self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._make, name="prefetch", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or len(self._made) < self._ahead)
                    if self._closed:
                        return
                    self._made.append(item)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        asked = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._made or self._ended or self._closed)
            self.waited += time.perf_counter() - asked
            if self._made and not self._closed:
                self._changed.notify_all()
                return self._made.popleft()
        if self._error is not None and not self._closed:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread, once the item that it is making is made; there are no further items."""
        with self._changed:
            self._closed = True
            self._made.clear()
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> "Prefetch[T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

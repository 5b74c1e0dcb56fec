"""Prefetching: the next batches are made in a background thread while the model computes."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """An iterator that makes its items in a background thread, a few ahead.

    Use it as a context manager: leaving the ``with`` block, by Ctrl-C too, stops the thread. An exception raised
    while making an item is raised again when the consumer asks for that item.

    items: iterable that makes the items, e.g. ``(corpus.batch(indices) for indices in plan)``.
    ahead: maximum number of items waiting to be consumed.
    waited: seconds the consumer has spent waiting for items so far.
    """

    def __init__(self, items: Iterable[T], *, ahead: int = 4) -> None:
        self.waited = 0.0
        self._items = items
        self._ahead = ahead
        self._ready: deque[T] = deque()
        self._error: BaseException | None = None
        self._exhausted = self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or len(self._ready) < self._ahead)
                    if self._closed:
                        return
                    self._ready.append(item)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._exhausted = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        started = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._exhausted or self._closed)
            self.waited += time.perf_counter() - started
            if self._ready and not self._closed:
                self._changed.notify_all()
                return self._ready.popleft()
        if self._error is not None and not self._closed:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def close(self) -> None:
        """Stop the thread as soon as it has finished its current item, and discard all items that are ready."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> "Prefetch[T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

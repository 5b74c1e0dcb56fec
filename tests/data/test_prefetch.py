"""Prefetch: items in order, exceptions after the items before them, and no leaked threads."""

import itertools
import os
import signal
import threading
import time

import pytest

from seqloom.data.prefetch import Prefetch


def prefetch_threads() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_items_come_in_order(ahead):
    with Prefetch((n * n for n in range(50)), ahead=ahead) as items:
        assert list(items) == [n * n for n in range(50)]
        assert list(items) == []
    assert prefetch_threads() == 0


def test_number_of_prefetched_items_is_limited():
    made = []
    with Prefetch((made.append(n) or n for n in itertools.count()), ahead=3) as items:
        assert next(items) == 0
        deadline = time.time() + 5
        while len(made) < 5 and time.time() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert len(made) == 5  # one consumed, three queued, one made and waiting for a slot
    assert prefetch_threads() == 0


def test_exception_is_raised_after_the_items_before_it():
    def failing():
        yield 1
        raise ValueError("broken")

    with Prefetch(failing()) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="broken"):
            next(items)
        with pytest.raises(StopIteration):
            next(items)
    assert prefetch_threads() == 0


def test_waiting_time_is_measured():
    def slow():
        for n in range(3):
            time.sleep(0.05)
            yield n

    with Prefetch(slow()) as items:
        list(items)
    assert 0.1 < items.waited < 5
    with Prefetch(iter(range(3))) as items:
        time.sleep(0.05)
        list(items)
    assert items.waited < 0.05


def test_ctrl_c_stops_the_thread():
    """While the consumer is waiting for an item."""
    release = threading.Event()

    def stuck():
        yield 1
        release.wait(10)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore SIGINT
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    items = Prefetch(stuck())
    try:
        with pytest.raises(KeyboardInterrupt):
            list(items)
    finally:
        release.set()
        items.close()
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert prefetch_threads() == 0


def test_close_stops_the_thread_and_can_be_repeated():
    items = Prefetch(itertools.count())
    next(items)
    items.close()
    items.close()
    assert list(items) == []
    assert prefetch_threads() == 0

"""Prefetch: the items of the iterable itself, errors where they belong, no thread left behind."""

import itertools
import os
import signal
import threading
import time

import pytest

from seqloom.data.prefetch import Prefetch


def left() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_items_come_in_order(ahead):
    with Prefetch((n * n for n in range(50)), ahead=ahead) as items:
        assert list(items) == [n * n for n in range(50)]
        assert list(items) == []
    assert left() == 0


def test_it_works_ahead_but_not_too_far():
    made = []
    with Prefetch((made.append(n) or n for n in itertools.count()), ahead=3) as items:
        assert next(items) == 0
        deadline = time.time() + 5
        while len(made) < 5 and time.time() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert len(made) == 5  # one used, three waiting, one made and waiting to be put there
    assert left() == 0


def test_an_error_surfaces_after_the_items_before_it():
    def failing():
        yield 1
        raise ValueError("broken")

    with Prefetch(failing()) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="broken"):
            next(items)
        with pytest.raises(StopIteration):
            next(items)
    assert left() == 0


def test_waiting_is_counted():
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


def test_ctrl_c_ends_it():
    """While the user of the items waits for one that never comes in time."""
    release = threading.Event()

    def stuck():
        yield 1
        release.wait(10)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background are deaf to it
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
    assert left() == 0


def test_closing_ends_it_early_and_twice_does_no_harm():
    items = Prefetch(itertools.count())
    next(items)
    items.close()
    items.close()
    assert list(items) == []
    assert left() == 0

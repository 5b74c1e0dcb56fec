"""Probes of several steps at once."""

from seqloom.nn.probe import each_step, silent
from tests.nn.helpers import assert_equal, rand

B, N, K, T, S = 2, 3, 4, 5, 7


class Doubling:
    """Keeps what it saw, and gives back twice that at one step."""

    def __init__(self):
        self.seen = {}

    def __call__(self, name, tensor):
        self.seen[name] = tensor
        return 2 * tensor if name == "x[2]" else tensor


def test_a_step_has_a_row_for_every_beam():
    x, probe = rand(B, N, K, T, S), Doubling()
    given = each_step(probe, T)("x", x.flatten(2, 3)).view_as(x)
    assert list(probe.seen) == [f"x[{t}]" for t in range(T)]
    for t in range(T):
        assert_equal(probe.seen[f"x[{t}]"], x[:, :, :, t], 0)
        assert_equal(given[:, :, :, t], (2 if t == 2 else 1) * x[:, :, :, t], 0)


def test_of_a_growing_past_a_step_sees_what_was_there():
    x, probe = rand(B, T, S), Doubling()
    given = each_step(probe, T, growing=True)("x", x)
    for t in range(T):
        there = S - T + t + 1
        assert_equal(probe.seen[f"x[{t}]"], x[:, t : t + 1, :there], 0)
        assert_equal(given[:, t, :there], (2 if t == 2 else 1) * x[:, t, :there], 0)
        assert not given[:, t, there:].any()


def test_a_silent_probe_stays_silent():
    """So that nobody computes anything for it."""
    assert each_step(silent, T) is silent

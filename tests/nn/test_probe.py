"""Probes on activations of several steps."""

from seqloom.nn.probe import each_step, no_probe
from tests.nn.helpers import assert_equal, rand

B, N, K, T, S = 2, 3, 4, 5, 7


class DoublingProbe:
    """Records activations, and doubles that of step 2."""

    def __init__(self):
        self.recorded = {}

    def __call__(self, name, tensor):
        self.recorded[name] = tensor
        return 2 * tensor if name == "x[2]" else tensor


def test_each_step_has_one_row_per_beam():
    x, probe = rand(B, N, K, T, S), DoublingProbe()
    result = each_step(probe, T)("x", x.flatten(2, 3)).view_as(x)
    assert list(probe.recorded) == [f"x[{t}]" for t in range(T)]
    for t in range(T):
        assert_equal(probe.recorded[f"x[{t}]"], x[:, :, :, t], 0)
        assert_equal(result[:, :, :, t], (2 if t == 2 else 1) * x[:, :, :, t], 0)


def test_causal_steps_get_only_previous_steps():
    x, probe = rand(B, T, S), DoublingProbe()
    result = each_step(probe, T, causal=True)("x", x)
    for t in range(T):
        length = S - T + t + 1
        assert_equal(probe.recorded[f"x[{t}]"], x[:, t : t + 1, :length], 0)
        assert_equal(result[:, t, :length], (2 if t == 2 else 1) * x[:, t, :length], 0)
        assert not result[:, t, length:].any()


def test_no_probe_stays_no_probe():
    """Code compares a probe with ``no_probe`` to skip work."""
    assert each_step(no_probe, T) is no_probe

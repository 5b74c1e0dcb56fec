"""The peephole LSTM against its equations."""

import numpy as np
import torch

from seqloom.registry import build
from tests.nn.helpers import (
    assert_equal,
    check_equations,
    input_matrix,
    rand,
    sigmoid,
    split_blocks,
    step_with_forced_values,
    to_numpy,
)


def test_equations():
    def equations(cell, x, h, c):
        W, U, b = (split_blocks(cell, a) for a in (input_matrix(cell), to_numpy(cell.recurrent), to_numpy(cell.bias)))
        a = {name: W[name] @ x + U[name] @ h + b[name] for name in W}
        p_i, p_f, p_o = to_numpy(cell.peepholes)
        new = sigmoid(a["forget"] + p_f * c) * c + sigmoid(a["input"] + p_i * c) * np.tanh(a["candidate"])
        return sigmoid(a["output"] + p_o * new) * np.tanh(new), new

    check_equations("peephole_lstm", equations)


def test_initial_peephole_lstm_equals_lstm():
    """With the same seed, both have the same initial weights, and peepholes are initialized to zero."""
    torch.manual_seed(0)
    peephole = build("cell", "peephole_lstm", 3, 4).double()
    torch.manual_seed(0)
    lstm = build("cell", "lstm", 3, 4).double()
    x, state = rand(2, 3), (rand(2, 4), rand(2, 4))
    assert_equal(peephole(peephole.project(x), state), lstm(lstm.project(x), state))


def test_output_gate_reads_new_cell_state_other_gates_the_previous():
    _, _, _, activations = step_with_forced_values("peephole_lstm")
    _, _, _, other = step_with_forced_values("peephole_lstm", c=3.0)  # replaces the new c
    assert_equal([activations["input"], activations["forget"]], [other["input"], other["forget"]], 0)
    assert not torch.allclose(activations["output"], other["output"])

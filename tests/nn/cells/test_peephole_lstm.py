"""The LSTM with peepholes against its equations."""

import numpy as np
import torch

from seqloom.registry import build
from tests.nn.helpers import array, assert_equal, by_block, check_equations, forced, input_matrix, rand, sigmoid


def test_equations():
    def equations(cell, x, h, c):
        W, U, b = (by_block(cell, a) for a in (input_matrix(cell), array(cell.recurrent), array(cell.bias)))
        a = {name: W[name] @ x + U[name] @ h + b[name] for name in W}
        p_i, p_f, p_o = array(cell.peepholes)
        new = sigmoid(a["forget"] + p_f * c) * c + sigmoid(a["input"] + p_i * c) * np.tanh(a["candidate"])
        return sigmoid(a["output"] + p_o * new) * np.tanh(new), new

    check_equations("peephole_lstm", equations)


def test_without_its_peepholes_it_is_the_lstm():
    """As it starts, and with the same initial weights: so what it gains, it gains by them."""
    torch.manual_seed(0)
    peephole = build("cell", "peephole_lstm", 3, 4).double()
    torch.manual_seed(0)
    lstm = build("cell", "lstm", 3, 4).double()
    x, state = rand(2, 3), (rand(2, 4), rand(2, 4))
    assert_equal(peephole(peephole.project(x), state), lstm(lstm.project(x), state))


def test_the_output_gate_sees_the_new_cell_state_the_others_the_old():
    _, _, _, seen = forced("peephole_lstm")
    _, _, _, other = forced("peephole_lstm", c=3.0)  # in the place of the new c
    assert_equal([seen["input"], seen["forget"]], [other["input"], other["forget"]], 0)
    assert not torch.allclose(seen["output"], other["output"])

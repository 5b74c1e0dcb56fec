"""Both forms of the gated recurrent unit against their equations."""

import numpy as np
import pytest

from tests.nn.helpers import array, by_block, check_equations, input_matrix, sigmoid


@pytest.mark.parametrize("reset", ["before", "after"])
def test_equations(reset):
    def equations(cell, x, h):
        W, U, b = (by_block(cell, a) for a in (input_matrix(cell), array(cell.recurrent), array(cell.bias)))
        r, z = (sigmoid(W[gate] @ x + U[gate] @ h + b[gate]) for gate in ("reset", "update"))
        if reset == "before":
            n = np.tanh(W["candidate"] @ x + U["candidate"] @ (r * h) + b["candidate"])
        else:
            past = U["candidate"] @ h + array(cell.candidate_bias)
            n = np.tanh(W["candidate"] @ x + b["candidate"] + r * past)
        return ((1 - z) * h + z * n,)

    check_equations({"name": "gru", "reset": reset}, equations)

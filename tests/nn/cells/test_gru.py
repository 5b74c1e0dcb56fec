"""Both variants of the GRU against their equations."""

import numpy as np
import pytest

from tests.nn.helpers import check_equations, input_matrix, sigmoid, split_blocks, to_numpy


@pytest.mark.parametrize("reset_after", [False, True])
def test_equations(reset_after):
    def equations(cell, x, h):
        W, U, b = (split_blocks(cell, a) for a in (input_matrix(cell), to_numpy(cell.recurrent), to_numpy(cell.bias)))
        r, z = (sigmoid(W[gate] @ x + U[gate] @ h + b[gate]) for gate in ("reset", "update"))
        if reset_after:
            n = np.tanh(
                W["candidate"] @ x + b["candidate"] + r * (U["candidate"] @ h + to_numpy(cell.candidate_bias))
            )
        else:
            n = np.tanh(W["candidate"] @ x + U["candidate"] @ (r * h) + b["candidate"])
        return ((1 - z) * h + z * n,)

    check_equations({"name": "gru", "reset_after": reset_after}, equations)

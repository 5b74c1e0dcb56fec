"""The Elman network against its equation."""

import numpy as np
import pytest

from tests.nn.helpers import check_equations, input_matrix, sigmoid, to_numpy


@pytest.mark.parametrize(("activation", "φ"), [("tanh", np.tanh), ("sigmoid", sigmoid)])
def test_equations(activation, φ):
    def equations(cell, x, h):
        return (φ(input_matrix(cell) @ x + to_numpy(cell.recurrent) @ h + to_numpy(cell.bias)),)

    check_equations({"name": "elman", "activation": activation}, equations)

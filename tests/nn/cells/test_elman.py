"""The simple recurrent network against its equation."""

import numpy as np
import pytest

from tests.nn.helpers import array, check_equations, input_matrix, sigmoid


@pytest.mark.parametrize(("activation", "φ"), [("tanh", np.tanh), ("sigmoid", sigmoid)])
def test_equations(activation, φ):
    def equations(cell, x, h):
        return (φ(input_matrix(cell) @ x + array(cell.recurrent) @ h + array(cell.bias)),)

    check_equations({"name": "elman", "activation": activation}, equations)

"""The minGRU against its equations."""

import torch

from seqloom.registry import build
from tests.nn.helpers import (
    assert_equal,
    check_equations,
    input_matrix,
    make_cell,
    rand,
    sigmoid,
    split_blocks,
    to_numpy,
)


def test_equations():
    def equations(cell, x, h):
        W, b = (split_blocks(cell, a) for a in (input_matrix(cell), to_numpy(cell.bias)))
        z = sigmoid(W["update"] @ x + b["update"])
        n = W["candidate"] @ x + b["candidate"]
        return ((1 - z) * h + z * n,)

    check_equations("mingru", equations)


def test_mingru_has_no_recurrent_matrix():
    assert sum(p.numel() for p in build("cell", "mingru", 3, 4).parameters()) == 2 * 4 * (3 + 1)


def test_state_is_linear_in_the_previous_state():
    """So all steps could be a parallel scan: h of a sum of states is the sum of their h, minus h of a zero state."""
    torch.manual_seed(0)
    cell = make_cell("mingru", 3, 4)
    z, one, two, zero = cell.project(rand(2, 3)), rand(2, 4), rand(2, 4), torch.zeros(2, 4, dtype=torch.float64)
    assert_equal(cell(z, (one + two,))[0] + cell(z, (zero,))[0], cell(z, (one,))[0] + cell(z, (two,))[0])

"""MUT1, MUT2 and MUT3 against their equations, and the bare input, which has no matrix."""

import numpy as np
import pytest
import torch

from seqloom.registry import build
from tests.nn.helpers import check_equations, input_matrix, to_numpy
from tests.nn.helpers import sigmoid as σ

SIZE = 4


def weights(cell):
    """W, U and b, split into blocks, and P."""
    W, U, b = input_matrix(cell), to_numpy(cell.recurrent), to_numpy(cell.bias)
    P = np.concatenate([to_numpy(p) for p in cell.bare_inputs], 1) if cell.bare_inputs else np.eye(SIZE)
    return *(np.split(a, len(a) // SIZE) for a in (W, U, b)), P


def mut1(cell, x, h):
    (W_xz, W_xr), (W_hr, W_hh), (b_z, b_r, b_h), P = weights(cell)
    z = σ(W_xz @ x + b_z)
    r = σ(W_xr @ x + W_hr @ h + b_r)
    return (np.tanh(W_hh @ (r * h) + np.tanh(P @ x) + b_h) * z + h * (1 - z),)


def mut2(cell, x, h):
    (W_xz, W_xh), (W_hz, W_hh, W_hr), (b_z, b_h, b_r), P = weights(cell)
    z = σ(W_xz @ x + W_hz @ h + b_z)
    r = σ(P @ x + W_hr @ h + b_r)
    return (np.tanh(W_hh @ (r * h) + W_xh @ x + b_h) * z + h * (1 - z),)


def mut3(cell, x, h):
    (W_xz, W_xr, W_xh), (W_hz, W_hr, W_hh), (b_z, b_r, b_h), _ = weights(cell)
    z = σ(W_xz @ x + W_hz @ np.tanh(h) + b_z)
    r = σ(W_xr @ x + W_hr @ h + b_r)
    return (np.tanh(W_hh @ (r * h) + W_xh @ x + b_h) * z + h * (1 - z),)


@pytest.mark.parametrize(("name", "equations"), [("mut1", mut1), ("mut2", mut2), ("mut3", mut3)])
def test_equations(name, equations):
    check_equations(name, equations)


@pytest.mark.parametrize(("name", "bare"), [("mut1", True), ("mut2", True), ("mut3", False)])
def test_bare_input_has_a_matrix_only_if_sizes_differ(name, bare):
    count = {n: sum(p.numel() for p in build("cell", name, n, SIZE).parameters()) for n in (SIZE - 1, SIZE, SIZE + 1)}
    extra = SIZE * SIZE if bare else 0  # P, which does not exist if the sizes are equal
    per_input = (count[SIZE + 1] - count[SIZE - 1]) // 2
    assert count[SIZE + 1] - count[SIZE] == per_input + extra


@pytest.mark.parametrize("name", ["mut1", "mut2"])
def test_bare_inputs_with_total_size_of_the_state_need_no_matrix(name):
    """Several inputs are concatenated to one x of the state size, so there is no P."""
    torch.manual_seed(0)
    joined, separate = build("cell", name, 4, 4), build("cell", name, (1, 3), 4)
    assert not len(separate.bare_inputs)
    with torch.no_grad():
        for part, weight in zip(separate.inputs, joined.inputs[0].split((1, 3), 1), strict=True):
            part.copy_(weight)
        separate.recurrent.copy_(joined.recurrent)
    x, h = torch.randn(2, 4), torch.randn(2, 4)
    z = separate.project(x[:, 1:], 1, separate.project(x[:, :1]))
    torch.testing.assert_close(separate(z, (h,))[0], joined(joined.project(x), (h,))[0])
    weight = torch.cat([separate.weight_of_input(0), separate.weight_of_input(1)], 1)
    torch.testing.assert_close(weight, joined.weight_of_input(0))

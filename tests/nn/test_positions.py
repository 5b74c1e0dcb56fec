"""Positions: sinusoids against the formula, learned ones and where they end."""

import math

import pytest
import torch

from seqloom.errors import SizeError
from seqloom.nn.positions import sinusoids
from seqloom.registry import build, parts
from tests.nn.helpers import assert_equal, gradients, rand

H, T = 6, 4


def by_formula(positions, size):
    """p[t, 2i] = sin(t / 10000^(2i/d)), p[t, 2i+1] = cos(the same)."""
    table = torch.zeros(len(positions), size, dtype=torch.float64)
    for row, t in enumerate(positions):
        for i in range(size // 2):
            angle = t / 10000 ** (2 * i / size)
            table[row, 2 * i] = math.sin(angle)
            table[row, 2 * i + 1] = math.cos(angle)
    return table


@pytest.mark.parametrize("size", [2, 6, 64])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
def test_sinusoids_are_their_formula(size, dtype, tolerance):
    positions = torch.tensor([0, 1, 2, 17, 1000])
    assert_equal(sinusoids(positions, size, dtype), by_formula(positions.tolist(), size).to(dtype), tolerance)
    grid = positions[None, :].expand(2, -1)
    assert_equal(sinusoids(grid, size, dtype)[1], sinusoids(positions, size, dtype), 0)


@pytest.mark.parametrize("start", [0, 3])
def test_sinusoidal_positions_are_added_from_the_start_on(start):
    x = rand(2, T, H)
    positions = build("positions", "sinusoidal", H)
    assert_equal(positions(x, start), x + by_formula(range(start, start + T), H))
    assert not list(positions.parameters())


def test_learned_positions():
    torch.manual_seed(1)
    positions = build("positions", {"name": "learned", "longest": 9}, H).double()
    x = rand(2, T, H)
    assert_equal(positions(x, 3), x + positions.table[3:7])
    (grad,) = gradients(positions(x, 3), [positions.table])
    assert grad[3:7].all()
    assert not grad[:3].any()
    assert not grad[7:].any()


@pytest.mark.parametrize(("steps", "start"), [(10, 0), (1, 9), (4, 6)])
def test_learned_positions_end(steps, start):
    positions = build("positions", {"name": "learned", "longest": 9}, H)
    with pytest.raises(SizeError, match=r"end at 9.*10 steps.*longest"):
        positions(torch.zeros(1, steps, H), start)
    assert positions(torch.zeros(1, steps - 1, H), start).shape == (1, steps - 1, H)


def test_no_positions():
    x = rand(2, T, H)
    assert_equal(build("positions", "none", H)(x, 3), x, 0)


@pytest.mark.parametrize("name", parts("positions"))
def test_a_later_part_of_a_sequence_is_that_part_of_the_whole(name):
    torch.manual_seed(2)
    positions = build("positions", name, H).double()
    x = rand(2, T, H)
    assert_equal(positions(x[:, 2:], 2), positions(x)[:, 2:])


def test_sinusoids_come_in_pairs():
    with pytest.raises(SizeError, match="5 is odd"):
        build("positions", "sinusoidal", 5)
    with pytest.raises(SizeError, match="7 is odd"):
        build("score", {"name": "position", "size": 7}, H, H)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_positions_are_no_noise_in_half_precision(dtype):
    position = torch.arange(1000)
    error = sinusoids(position, 16, dtype).double() - sinusoids(position, 16, torch.float64)
    assert error.abs().max() < 0.01

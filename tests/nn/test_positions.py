"""Positional encodings: sinusoids against the formula, and learned positions with their maximum."""

import math

import pytest
import torch

from seqloom.errors import ShapeError
from seqloom.nn.positions import sinusoids
from seqloom.registry import build, parts
from tests.nn.helpers import assert_equal, gradients, rand

H, T = 6, 4


def by_formula(positions, size):
    """p[t, 2i] = sin(t / 10000^(2i/d)), p[t, 2i+1] = cos(t / 10000^(2i/d))."""
    table = torch.zeros(len(positions), size, dtype=torch.float64)
    for row, t in enumerate(positions):
        for i in range(size // 2):
            angle = t / 10000 ** (2 * i / size)
            table[row, 2 * i] = math.sin(angle)
            table[row, 2 * i + 1] = math.cos(angle)
    return table


@pytest.mark.parametrize("size", [2, 6, 64])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
def test_sinusoids_match_the_formula(size, dtype, tolerance):
    positions = torch.tensor([0, 1, 2, 17, 1000])
    assert_equal(sinusoids(positions, size, dtype), by_formula(positions.tolist(), size).to(dtype), tolerance)
    grid = positions[None, :].expand(2, -1)
    assert_equal(sinusoids(grid, size, dtype)[1], sinusoids(positions, size, dtype), 0)


@pytest.mark.parametrize("start", [0, 3])
def test_sinusoidal_encoding_is_added_from_the_start_position(start):
    x = rand(2, T, H)
    positions = build("positional_encoding", "sinusoidal", H)
    assert_equal(positions(x, start), x + by_formula(range(start, start + T), H))
    assert not list(positions.parameters())


def test_learned_positions_are_added_and_get_gradients():
    torch.manual_seed(1)
    positions = build("positional_encoding", {"name": "learned", "max_positions": 9}, H).double()
    x = rand(2, T, H)
    assert_equal(positions(x, 3), x + positions.table[3:7])
    (grad,) = gradients(positions(x, 3), [positions.table])
    assert grad[3:7].all()
    assert not grad[:3].any()
    assert not grad[7:].any()


@pytest.mark.parametrize(("steps", "start"), [(10, 0), (1, 9), (4, 6)])
def test_sequence_longer_than_max_positions_is_an_error(steps, start):
    positions = build("positional_encoding", {"name": "learned", "max_positions": 9}, H)
    with pytest.raises(ShapeError, match=r"at most 9 steps \(max_positions\).*has 10.*increase max_positions"):
        positions(torch.zeros(1, steps, H), start)
    assert positions(torch.zeros(1, steps - 1, H), start).shape == (1, steps - 1, H)


def test_none_adds_nothing():
    x = rand(2, T, H)
    assert_equal(build("positional_encoding", "none", H)(x, 3), x, 0)


@pytest.mark.parametrize("name", parts("positional_encoding"))
def test_encoding_of_a_suffix_equals_the_suffix_of_the_encoding(name):
    torch.manual_seed(2)
    positions = build("positional_encoding", name, H).double()
    x = rand(2, T, H)
    assert_equal(positions(x[:, 2:], 2), positions(x)[:, 2:])


def test_odd_sinusoid_size_is_an_error():
    with pytest.raises(ShapeError, match="5 is odd"):
        build("positional_encoding", "sinusoidal", 5)
    with pytest.raises(ShapeError, match="7 is odd"):
        build("score", {"name": "position", "size": 7}, H, H)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sinusoids_are_accurate_in_half_precision(dtype):
    position = torch.arange(1000)
    error = sinusoids(position, 16, dtype).double() - sinusoids(position, 16, torch.float64)
    assert error.abs().max() < 0.01

"""Every cell against its published equations in plain numpy, its gates under a probe, and its initial weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.errors import OptionError, UnknownNameError
from seqloom.nn.recurrent import Recurrent
from seqloom.registry import build, parts
from tests.nn.helpers import (
    CELLS,
    Recorder,
    array,
    assert_equal,
    gradcheck,
    label,
    make_cell,
    make_state,
    rand,
    unchanged,
)

Vector = np.ndarray
Equations = Callable[..., tuple[Vector, ...]]
SIZE = 4
INPUTS = [SIZE, 3, (3, 2), (SIZE, SIZE)]
every_cell = pytest.mark.parametrize("spec", CELLS, ids=label)
every_name = pytest.mark.parametrize("name", parts("cell"))


def cells_with(block: str) -> pytest.MarkDecorator:
    specs = [spec for spec in CELLS if block in build("cell", spec, 1, 1).blocks]
    return pytest.mark.parametrize("spec", specs, ids=label)


def σ(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def elman(spec: dict[str, Any], W: Vector, U: Vector, b: Vector, x: Vector, h: Vector) -> tuple[Vector, ...]:
    φ = {"tanh": np.tanh, "sigmoid": σ}[spec["activation"]]
    return (φ(W @ x + U @ h + b),)


def lstm(
    spec: dict[str, Any], W: Vector, U: Vector, b: Vector, x: Vector, h: Vector, c: Vector
) -> tuple[Vector, ...]:
    kept = [g for g in ("input", "forget", "candidate", "output") if g == "candidate" or spec.get(f"{g}_gate", True)]
    W, U, b = (dict(zip(kept, np.split(a, len(kept)), strict=True)) for a in (W, U, b))

    def gate(name: str) -> Vector:
        return σ(W[name] @ x + U[name] @ h + b[name]) if name in kept else np.ones(SIZE)

    g = np.tanh(W["candidate"] @ x + U["candidate"] @ h + b["candidate"])
    c = gate("forget") * c + gate("input") * g
    return gate("output") * np.tanh(c), c


def gru(
    spec: dict[str, Any], W: Vector, U: Vector, b: Vector, x: Vector, h: Vector, *, candidate_bias: Vector
) -> tuple[Vector, ...]:
    (W_r, W_z, W_n), (U_r, U_z, U_n), (b_r, b_z, b_n) = np.split(W, 3), np.split(U, 3), np.split(b, 3)
    r = σ(W_r @ x + U_r @ h + b_r)
    z = σ(W_z @ x + U_z @ h + b_z)
    if spec["reset"] == "before":
        n = np.tanh(W_n @ x + U_n @ (r * h) + b_n)
    else:
        n = np.tanh(W_n @ x + b_n + r * (U_n @ h + candidate_bias))
    return ((1 - z) * h + z * n,)


def mut1(
    spec: dict[str, Any], W: Vector, U: Vector, b: Vector, x: Vector, h: Vector, *, P: Vector
) -> tuple[Vector, ...]:
    (W_xz, W_xr), (W_hr, W_hh), (b_z, b_r, b_h) = np.split(W, 2), np.split(U, 2), np.split(b, 3)
    z = σ(W_xz @ x + b_z)
    r = σ(W_xr @ x + W_hr @ h + b_r)
    return (np.tanh(W_hh @ (r * h) + np.tanh(P @ x) + b_h) * z + h * (1 - z),)


def mut2(
    spec: dict[str, Any], W: Vector, U: Vector, b: Vector, x: Vector, h: Vector, *, P: Vector
) -> tuple[Vector, ...]:
    (W_xz, W_xh), (W_hz, W_hh, W_hr), (b_z, b_h, b_r) = np.split(W, 2), np.split(U, 3), np.split(b, 3)
    z = σ(W_xz @ x + W_hz @ h + b_z)
    r = σ(P @ x + W_hr @ h + b_r)
    return (np.tanh(W_hh @ (r * h) + W_xh @ x + b_h) * z + h * (1 - z),)


def mut3(spec: dict[str, Any], W: Vector, U: Vector, b: Vector, x: Vector, h: Vector) -> tuple[Vector, ...]:
    (W_xz, W_xr, W_xh), (W_hz, W_hr, W_hh), (b_z, b_r, b_h) = np.split(W, 3), np.split(U, 3), np.split(b, 3)
    z = σ(W_xz @ x + W_hz @ np.tanh(h) + b_z)
    r = σ(W_xr @ x + W_hr @ h + b_r)
    return (np.tanh(W_hh @ (r * h) + W_xh @ x + b_h) * z + h * (1 - z),)


EQUATIONS: dict[str, Equations] = {
    "elman": elman,
    "lstm": lstm,
    "gru": gru,
    "mut1": mut1,
    "mut2": mut2,
    "mut3": mut3,
}


def transcribed(spec: dict[str, Any], cell: Any, x: Vector, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
    """One step of one row by the equations; several inputs are one, joined."""
    if spec["name"] not in EQUATIONS:
        pytest.fail(f"cell {spec['name']!r} has no numpy transcription: write its equations into EQUATIONS here")
    W = np.concatenate([array(w) for w in cell.inputs], 1)
    more = {}
    if spec["name"] == "gru":
        more["candidate_bias"] = array(cell.candidate_bias) if spec["reset"] == "after" else np.zeros(SIZE)
    if spec["name"] in ("mut1", "mut2"):
        more["P"] = np.concatenate([array(p) for p in cell.bare_inputs], 1) if cell.bare_inputs else np.eye(SIZE)
    return EQUATIONS[spec["name"]](spec, W, array(cell.recurrent), array(cell.bias), x, *state, **more)


def projected(cell: Any, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return sum(cell.project(x, block) for block, x in enumerate(inputs))


def inputs_of(cell: Any, rows: int) -> tuple[torch.Tensor, ...]:
    return tuple(rand(rows, n) for n in cell.input_sizes)


@every_cell
@pytest.mark.parametrize("inputs", INPUTS)
def test_a_cell_is_its_published_equations(spec, inputs):
    torch.manual_seed(1)
    cell = make_cell(spec, inputs, SIZE)
    state = make_state(cell, 3)
    expected = [tuple(array(part[row]) for part in state) for row in range(3)]
    for _ in range(5):
        xs = inputs_of(cell, 3)
        h, state = cell(projected(cell, xs), state)
        for row in range(3):
            x = np.concatenate([array(x[row]) for x in xs])
            expected[row] = transcribed(spec, cell, x, expected[row])
            for part, wanted in zip(state, expected[row], strict=True):
                np.testing.assert_allclose(array(part[row]), wanted, rtol=0, atol=1e-10)
        assert h is state[0]


@every_cell
def test_two_inputs_are_one_joined_input(spec):
    torch.manual_seed(2)
    two, one = make_cell(spec, (3, 2), SIZE), make_cell(spec, 5, SIZE)
    with torch.no_grad():
        one.bias.copy_(two.bias)
        one.recurrent.copy_(two.recurrent)
        one.inputs[0].copy_(torch.cat(tuple(two.inputs), 1))
        if getattr(two, "bare_inputs", None):
            one.bare_inputs[0].copy_(torch.cat(tuple(two.bare_inputs), 1))
        if hasattr(two, "candidate_bias"):
            one.candidate_bias.copy_(two.candidate_bias)
    xs, state = inputs_of(two, 3), make_state(two, 3)
    assert_equal(two(projected(two, xs), state), one(one.project(torch.cat(xs, -1)), state))


@every_cell
@pytest.mark.parametrize("inputs", [3, (3, 2), 2])
def test_gradients_of_a_cell(spec, inputs):
    torch.manual_seed(3)
    cell = make_cell(spec, inputs, 2)
    xs, state = inputs_of(cell, 2), make_state(cell, 2)

    def two_steps(*tensors):
        xs, state = tensors[: len(cell.input_sizes)], tensors[len(cell.input_sizes) :]
        for _ in range(2):
            _, state = cell(projected(cell, xs), state)
        return state

    assert gradcheck(two_steps, *xs, *state, module=cell)


@every_cell
def test_projection_is_affine_with_one_bias(spec):
    torch.manual_seed(4)
    cell = make_cell(spec, (3, 2), SIZE)
    for block, (a, b) in enumerate(zip(inputs_of(cell, 1), inputs_of(cell, 1), strict=True)):
        zero = cell.project(torch.zeros_like(a), block)
        assert_equal(cell.project(a + b, block) + zero, cell.project(a, block) + cell.project(b, block))
    assert_equal(zero, torch.zeros_like(zero))


@every_cell
def test_a_cell_shows_its_gates_and_a_look_changes_nothing(spec):
    torch.manual_seed(5)
    cell = make_cell(spec, 3, SIZE)
    (x,), state, probe = inputs_of(cell, 2), make_state(cell, 2), Recorder()
    h, new = cell(cell.project(x), state, probe)
    assert set(probe.seen) == {*cell.blocks, *cell.parts}
    assert_equal((h, new), cell(cell.project(x), state), 0)
    assert_equal((h, new), cell(cell.project(x), state, unchanged), 0)
    assert_equal([probe.seen[part] for part in cell.parts], new, 0)
    gates = set(probe.seen) - {"h", "c", "candidate"}
    assert all(0 < value < 1 for gate in gates for value in probe.seen[gate].flatten())


def forced(spec: Any, **force: float) -> tuple[Any, tuple[torch.Tensor, ...], torch.Tensor, Recorder]:
    """A step with some gates forced: the state before, the state after, and all that was seen."""
    torch.manual_seed(6)
    cell = make_cell(spec, 3, SIZE)
    state, probe = make_state(cell, 2), Recorder(**force)
    _, new = cell(cell.project(inputs_of(cell, 2)[0]), state, probe)
    return cell, state, new, probe.seen


@cells_with("update")
def test_an_update_gate_moves_between_the_old_state_and_the_candidate(spec):
    _, old, new, seen = forced(spec, update=0.0)
    assert_equal(new[0], old[0])
    _, _, new, seen = forced(spec, update=1.0)
    assert_equal(new[0], seen["candidate"])
    _, old, new, seen = forced(spec, update=0.25)
    assert_equal(new[0], 0.75 * old[0] + 0.25 * seen["candidate"])


@cells_with("reset")
def test_a_reset_gate_at_zero_hides_the_past_from_the_candidate(spec):
    torch.manual_seed(8)
    cell = make_cell(spec, 3, SIZE)
    (x,) = inputs_of(cell, 2)
    shut, open_ = [], []
    for _ in range(2):
        state = make_state(cell, 2)
        for value, seen in ((0.0, shut), (1.0, open_)):
            probe = Recorder(reset=value)
            cell(cell.project(x), state, probe)
            seen.append(probe.seen["candidate"])
    assert_equal(*shut)
    assert not torch.allclose(*open_)


@pytest.mark.parametrize("spec", [spec for spec in CELLS if spec["name"] == "lstm"], ids=label)
def test_forced_gates_of_the_lstm(spec):
    if spec["forget_gate"] and spec["input_gate"]:
        _, (_, c), (_, new_c), seen = forced(spec, forget=1.0, input=0.0)
        assert_equal(new_c, c)
        _, _, (_, new_c), seen = forced(spec, forget=0.0, input=1.0)
        assert_equal(new_c, seen["candidate"])
    if spec["output_gate"]:
        _, _, (h, _), _ = forced(spec, output=0.0)
        assert_equal(h, torch.zeros_like(h))
    _, _, (h, c), _ = forced(spec, output=1.0)
    assert_equal(h, torch.tanh(c))


@every_cell
def test_a_forced_state_is_what_the_next_step_gets(spec):
    """Whatever a probe puts in the place of a part of the state is returned as that part."""
    cell, _, _, _ = forced(spec)
    for part in cell.parts:
        place = cell.parts.index(part)
        _, _, new, _ = forced(spec, **{part: 0.5})
        assert_equal(new[place], torch.full_like(new[place], 0.5))


@every_cell
@pytest.mark.parametrize("inputs", [5, (5, 3)])
def test_initial_weights(spec, inputs):
    torch.manual_seed(7)
    cell = build("cell", spec, inputs, 6)
    for U in cell.recurrent.chunk(len(cell.recurrent) // 6):
        assert_equal(U.t() @ U, torch.eye(6), 1e-5)
    bound = (6 / (sum(cell.input_sizes) + 6)) ** 0.5
    for W in cell.inputs:
        assert 0.5 * bound < W.abs().max() <= bound
    for name, b in cell.named_blocks(cell.bias).items():
        assert_equal(b, torch.full_like(b, spec.get("forget_bias", 0.0) if name == "forget" else 0.0))


@pytest.mark.parametrize("spec", [spec for spec in CELLS if spec["name"] == "lstm"], ids=label)
def test_a_removed_gate_has_no_parameters(spec):
    cell = build("cell", spec, 3, SIZE)
    blocks = 1 + spec["forget_gate"] + spec["input_gate"] + spec["output_gate"]
    assert sum(p.numel() for p in cell.parameters()) == blocks * SIZE * (3 + SIZE + 1)
    assert len(cell.blocks) == blocks


@every_name
def test_only_where_widths_differ_is_there_a_matrix_for_the_bare_input(name):
    count = {n: sum(p.numel() for p in build("cell", name, n, SIZE).parameters()) for n in (SIZE - 1, SIZE, SIZE + 1)}
    extra = SIZE * SIZE if name in ("mut1", "mut2") else 0  # P, of which there is none at equal widths
    per_input = (count[SIZE + 1] - count[SIZE - 1]) // 2
    assert count[SIZE + 1] - count[SIZE] == per_input + extra


def test_errors_of_a_cell():
    with pytest.raises(UnknownNameError, match="did you mean 'lstm'"):
        build("cell", "lstmm", 3, 4)
    with pytest.raises(UnknownNameError, match="did you mean 'forget_bias'"):
        build("cell", {"name": "lstm", "forget_bais": 1.0}, 3, 4)
    with pytest.raises(OptionError, match="activation"):
        build("cell", {"name": "elman", "activation": "relu"}, 3, 4)


@pytest.mark.parametrize("name", ["mut1", "mut2"])
def test_inputs_that_are_as_wide_as_the_state_together_enter_bare(name):
    """Several inputs are one x, joined: no P then either."""
    torch.manual_seed(0)
    joined, parts = build("cell", name, 4, 4), build("cell", name, (1, 3), 4)
    assert not len(parts.bare_inputs)
    with torch.no_grad():
        for part, weight in zip(parts.inputs, joined.inputs[0].split((1, 3), 1), strict=True):
            part.copy_(weight)
        parts.recurrent.copy_(joined.recurrent)
    x, h = torch.randn(2, 4), torch.randn(2, 4)
    z = parts.add(parts.project(x[:, :1]), x[:, 1:], 1)
    torch.testing.assert_close(parts(z, (h,))[0], joined(joined.project(x), (h,))[0])
    weight = torch.cat([parts.block_weight(0), parts.block_weight(1)], 1)
    torch.testing.assert_close(weight, joined.block_weight(0))


def test_a_forget_bias_without_a_forget_gate_is_refused():
    with pytest.raises(OptionError, match="forget_bias has no use"):
        Recurrent(3, 4, cell={"name": "lstm", "forget_gate": False, "forget_bias": 0.0})

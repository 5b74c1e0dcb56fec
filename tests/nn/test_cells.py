"""What every cell must do; its own equations are in ``cells/``, a file for each."""

import pytest
import torch

from seqloom.errors import OptionError, UnknownNameError
from seqloom.nn.cells import Cell
from seqloom.nn.recurrent import Recurrent
from seqloom.registry import build
from tests.nn.helpers import (
    CELLS,
    Recorder,
    assert_equal,
    forced,
    gradcheck,
    inputs_of,
    make_cell,
    make_state,
    projected,
    unchanged,
)
from tests.variants import label

SIZE = 4
GATES = {"input", "forget", "output", "update", "reset"}
"""Blocks that, where a cell has them, lie between 0 and 1."""
every_cell = pytest.mark.parametrize("spec", CELLS, ids=label)


def cells_with(block: str) -> pytest.MarkDecorator:
    specs = [spec for spec in CELLS if block in build("cell", spec, 1, 1).blocks]
    return pytest.mark.parametrize("spec", specs, ids=label)


@every_cell
def test_two_inputs_are_one_joined_input(spec):
    torch.manual_seed(2)
    two, one = make_cell(spec, (3, 2), SIZE), make_cell(spec, 5, SIZE)
    given = two.state_dict()
    joined = {n: torch.cat([given[n], given[f"{n[:-1]}1"]], 1) if n.endswith(".0") else w for n, w in given.items()}
    one.load_state_dict({name: weight for name, weight in joined.items() if not name.endswith(".1")})
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
    gates = set(probe.seen) & GATES
    assert all(0 < value < 1 for gate in gates for value in probe.seen[gate].flatten())


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
    if type(cell).reset_parameters is not Cell.reset_parameters:
        pytest.skip("a start of its own")
    for U in cell.recurrent_blocks():
        assert_equal(U.t() @ U, torch.eye(6), 1e-5)
    bound = (6 / (sum(cell.input_sizes) + 6)) ** 0.5
    for W in cell.inputs:
        assert 0.5 * bound < W.abs().max() <= bound


def test_errors_of_a_cell():
    with pytest.raises(UnknownNameError, match="did you mean 'lstm'"):
        build("cell", "lstmm", 3, 4)
    with pytest.raises(UnknownNameError, match="did you mean 'forget_bias'"):
        build("cell", {"name": "lstm", "forget_bais": 1.0}, 3, 4)
    with pytest.raises(OptionError, match="activation"):
        build("cell", {"name": "elman", "activation": "relu"}, 3, 4)


def test_a_cell_without_a_recurrent_matrix():
    """Its past may act by gates alone; nothing of U is there then, neither to save nor to learn."""
    cell = Cell(3, SIZE, blocks=("update", "candidate"), recurrent=())
    assert cell.recurrent_blocks() == ()
    assert set(cell.state_dict()) == {"inputs.0", "bias"}


def test_a_forget_bias_without_a_forget_gate_is_refused():
    with pytest.raises(OptionError, match="forget_bias has no use"):
        Recurrent(3, 4, cell={"name": "lstm", "forget_gate": False, "forget_bias": 0.0})

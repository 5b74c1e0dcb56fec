"""Requirements on every cell. Each cell's equations are tested in its own file in ``cells/``."""

import pytest
import torch

from seqloom.errors import ConfigError, UnknownNameError
from seqloom.nn.cells import Cell
from seqloom.nn.recurrent import StackedRNN
from seqloom.registry import build
from tests.nn.helpers import (
    CELLS,
    RecordingProbe,
    assert_equal,
    gradcheck,
    identity_probe,
    make_cell,
    make_inputs,
    make_state,
    project_inputs,
    step_with_forced_values,
)
from tests.variants import label

SIZE = 4
GATES = {"input", "forget", "output", "update", "reset"}
"""Blocks whose values are between 0 and 1."""
every_cell = pytest.mark.parametrize("spec", CELLS, ids=label)


def cells_with(block: str) -> pytest.MarkDecorator:
    specs = [spec for spec in CELLS if block in build("cell", spec, 1, 1).blocks]
    return pytest.mark.parametrize("spec", specs, ids=label)


@every_cell
def test_two_inputs_equal_one_concatenated_input(spec):
    torch.manual_seed(2)
    two, one = make_cell(spec, (3, 2), SIZE), make_cell(spec, 5, SIZE)
    weights = two.state_dict()
    joined = {
        n: torch.cat([weights[n], weights[f"{n[:-1]}1"]], 1) if n.endswith(".0") else w for n, w in weights.items()
    }
    one.load_state_dict({name: weight for name, weight in joined.items() if not name.endswith(".1")})
    xs, state = make_inputs(two, 3), make_state(two, 3)
    assert_equal(two(project_inputs(two, xs), state), one(one.project(torch.cat(xs, -1)), state))


@every_cell
@pytest.mark.parametrize("inputs", [3, (3, 2), 2])
def test_gradients(spec, inputs):
    torch.manual_seed(3)
    cell = make_cell(spec, inputs, 2)
    xs, state = make_inputs(cell, 2), make_state(cell, 2)

    def two_steps(*tensors):
        xs, state = tensors[: len(cell.input_sizes)], tensors[len(cell.input_sizes) :]
        for _ in range(2):
            _, state = cell(project_inputs(cell, xs), state)
        return state

    assert gradcheck(two_steps, *xs, *state, module=cell)


@every_cell
def test_projection_is_affine_with_one_bias(spec):
    torch.manual_seed(4)
    cell = make_cell(spec, (3, 2), SIZE)
    for block, (a, b) in enumerate(zip(make_inputs(cell, 1), make_inputs(cell, 1), strict=True)):
        zero = cell.project(torch.zeros_like(a), block)
        assert_equal(cell.project(a + b, block) + zero, cell.project(a, block) + cell.project(b, block))
    assert_equal(zero, torch.zeros_like(zero))


@every_cell
def test_probe_gets_gates_and_recording_changes_nothing(spec):
    torch.manual_seed(5)
    cell = make_cell(spec, 3, SIZE)
    (x,), state, probe = make_inputs(cell, 2), make_state(cell, 2), RecordingProbe()
    h, new = cell(cell.project(x), state, probe)
    assert set(probe.recorded) == {*cell.blocks, *cell.state_names}
    assert_equal((h, new), cell(cell.project(x), state), 0)
    assert_equal((h, new), cell(cell.project(x), state, identity_probe), 0)
    assert_equal([probe.recorded[part] for part in cell.state_names], new, 0)
    gates = set(probe.recorded) & GATES
    assert all(0 < value < 1 for gate in gates for value in probe.recorded[gate].flatten())


@cells_with("update")
def test_update_gate_interpolates_between_state_and_candidate(spec):
    _, old, new, seen = step_with_forced_values(spec, update=0.0)
    assert_equal(new[0], old[0])
    _, _, new, seen = step_with_forced_values(spec, update=1.0)
    assert_equal(new[0], seen["candidate"])
    _, old, new, seen = step_with_forced_values(spec, update=0.25)
    assert_equal(new[0], 0.75 * old[0] + 0.25 * seen["candidate"])


@cells_with("reset")
def test_reset_gate_at_zero_removes_the_state_from_the_candidate(spec):
    torch.manual_seed(8)
    cell = make_cell(spec, 3, SIZE)
    (x,) = make_inputs(cell, 2)
    closed, open_ = [], []
    for _ in range(2):
        state = make_state(cell, 2)
        for value, candidates in ((0.0, closed), (1.0, open_)):
            probe = RecordingProbe(reset=value)
            cell(cell.project(x), state, probe)
            candidates.append(probe.recorded["candidate"])
    assert_equal(*closed)
    assert not torch.allclose(*open_)


@every_cell
def test_probe_replaces_state_tensors(spec):
    """If a probe replaces a tensor of the state, the cell returns the replacement."""
    cell, _, _, _ = step_with_forced_values(spec)
    for n, part in enumerate(cell.state_names):
        _, _, new, _ = step_with_forced_values(spec, **{part: 0.5})
        assert_equal(new[n], torch.full_like(new[n], 0.5))


@every_cell
@pytest.mark.parametrize("inputs", [5, (5, 3)])
def test_weight_initialization(spec, inputs):
    torch.manual_seed(7)
    cell = build("cell", spec, inputs, 6)
    if type(cell).reset_parameters is not Cell.reset_parameters:
        pytest.skip("overrides reset_parameters")
    for U in cell.recurrent_blocks():
        assert_equal(U.t() @ U, torch.eye(6), 1e-5)
    bound = (6 / (sum(cell.input_sizes) + 6)) ** 0.5
    for W in cell.inputs:
        assert 0.5 * bound < W.abs().max() <= bound


def test_invalid_cell_specs_are_errors():
    with pytest.raises(UnknownNameError, match="did you mean 'lstm'"):
        build("cell", "lstmm", 3, 4)
    with pytest.raises(UnknownNameError, match="did you mean 'forget_bias'"):
        build("cell", {"name": "lstm", "forget_bais": 1.0}, 3, 4)
    with pytest.raises(ConfigError, match="activation"):
        build("cell", {"name": "elman", "activation": "relu"}, 3, 4)


def test_cell_without_recurrent_matrix():
    """Without U, the state dict has no recurrent weights."""
    cell = Cell(3, SIZE, blocks=("update", "candidate"), recurrent=())
    assert cell.recurrent_blocks() == ()
    assert set(cell.state_dict()) == {"inputs.0", "bias"}


def test_forget_bias_without_forget_gate_is_an_error():
    with pytest.raises(ConfigError, match="forget_bias has no effect"):
        StackedRNN(3, 4, cell={"name": "lstm", "forget_gate": False, "forget_bias": 0.0})

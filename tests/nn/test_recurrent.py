"""Recurrent networks against torch.nn, fused kernels against the loop, masks, given and learned initial states."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seqloom.errors import InputError, ShapeError
from seqloom.nn import fused
from seqloom.nn.recurrent import StackedRNN, unroll
from seqloom.registry import build, parts
from tests.nn.helpers import (
    CELLS,
    RecordingProbe,
    assert_equal,
    assert_equal_with_gradients,
    gradients,
    identity_probe,
    make_cell,
    make_state,
    masks,
    rand,
    randomize_parameters,
    weighted_sum,
)
from tests.variants import label

E, H, B, S = 3, 4, 3, 5
TORCH = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
FUSED_CELLS = [spec for spec in CELLS if build("cell", spec, 1, 1).has_fused_kernel]
assert TORCH.keys() <= {spec["name"] for spec in FUSED_CELLS}
every_cell = pytest.mark.parametrize("spec", CELLS, ids=label)
every_fused_cell = pytest.mark.parametrize("spec", FUSED_CELLS, ids=label)
in_both_directions = pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
LENGTHS = torch.tensor([3, 5, 1])
GAPS = torch.tensor([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0]]).bool()


def signs(cell):
    """−1 for the update gate of a GRU, which PyTorch defines as 1 − z; 1 elsewhere."""
    ones = torch.ones_like(cell.bias)
    return torch.cat([-b if name == "update" else b for name, b in cell.named_blocks(ones).items()])


def to_torch(ours, spec):
    """The torch.nn network with our weights; its second bias is zero, except for the candidate of a GRU."""
    theirs = TORCH[spec["name"]](
        ours.cells[0].input_sizes[0],
        ours.size,
        num_layers=ours.layers,
        bidirectional=len(ours.directions) == 2,
        batch_first=True,
        dtype=ours.cells[0].bias.dtype,
    )
    with torch.no_grad():
        for cell, (W, U, b, b2) in zip(ours.cells, theirs.all_weights, strict=True):
            W.copy_(cell.inputs[0] * signs(cell)[:, None])
            U.copy_(cell.recurrent * signs(cell)[:, None])
            b.copy_(cell.bias * signs(cell))
            b2.zero_()
            if spec["name"] == "gru":
                b2[2 * ours.size :] = cell.candidate_bias
    return theirs


def run_torch(theirs, x, mask):
    """Outputs, and the final state of every layer with directions concatenated, in our shape."""
    if mask is None:
        y, final = theirs(x)
    else:
        packed = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
        y, final = theirs(packed)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    tensors = final if isinstance(final, tuple) else (final,)
    by_layer = [part.unflatten(0, (theirs.num_layers, -1)).transpose(1, 2).flatten(2) for part in tensors]
    return y, tuple(zip(*by_layer, strict=True))


def paired_weights(ours, theirs):
    """Pairs of our parameters and PyTorch's gradients."""
    for cell, weights in zip(ours.cells, theirs.all_weights, strict=True):
        W, U, b, b2 = (w.grad for w in weights)
        yield cell.inputs[0], W * signs(cell)[:, None]
        yield cell.recurrent, U * signs(cell)[:, None]
        yield cell.bias, b * signs(cell)
        if hasattr(cell, "candidate_bias"):
            yield cell.candidate_bias, b2[2 * ours.size :]


@pytest.mark.parametrize("spec", [s for s in FUSED_CELLS if s["name"] in TORCH], ids=label)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "padded"])
def test_equals_torch_nn(spec, dtype, layers, bidirectional, masked):
    torch.manual_seed(1)
    tolerance = 1e-10 if dtype is torch.float64 else 2e-5
    ours = randomize_parameters(StackedRNN(E, H, cell=spec, layers=layers, bidirectional=bidirectional), dtype)
    theirs = to_torch(ours, spec)
    mask = torch.arange(S) < LENGTHS[:, None] if masked else None
    x, x2 = rand(B, S, E, dtype=dtype), rand(B, S, E, dtype=dtype)
    x2.data.copy_(x.data)

    result, expected = ours(x, mask), run_torch(theirs, x2, mask)
    assert_equal(result, expected, tolerance)
    with torch.no_grad():
        assert_equal(ours(x, mask), expected, tolerance)
    weighted_sum(result).backward()
    weighted_sum(expected).backward()
    assert_equal(x.grad, x2.grad, tolerance)
    for weight, grad in paired_weights(ours, theirs):
        assert_equal(weight.grad, grad, tolerance)


def unroll_rows(cell, xs, state, mask=None, backward=False):
    """The reference: every row separately, step by step, skipping padding."""
    rows = range(len(xs[0]))
    steps = xs[0].shape[1]
    hs, finals = [], []
    for row in rows:
        current = tuple(part[row : row + 1] for part in state)
        h = [torch.zeros_like(current[0][0])] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            if mask is None or mask[row, t]:
                z = sum(cell.project(x[row : row + 1, t], n) for n, x in enumerate(xs))
                out, current = cell(z, current)
                h[t] = out[0]
        hs.append(torch.stack(h))
        finals.append(current)
    return torch.stack(hs), tuple(torch.cat(parts) for parts in zip(*finals, strict=True))


def make_cell_and_inputs(cell, inputs=(E,), seed=2):
    """A cell, its inputs, an initial state, and all leaves."""
    torch.manual_seed(seed)
    cell = make_cell(cell, inputs, H)
    xs, state = tuple(rand(B, S, n) for n in cell.input_sizes), make_state(cell, B)
    return cell, xs, state, [*xs, *state, *cell.parameters()]


@every_cell
@in_both_directions
@pytest.mark.parametrize("inputs", [(E,), (H,), (E, 2)])
@pytest.mark.parametrize("mask", [None, GAPS], ids=["full", "gaps"])
@pytest.mark.parametrize("probe", [None, identity_probe], ids=["no probe", "probe"])
def test_rows_match_unpadded_sequences(spec, backward, inputs, mask, probe):
    cell, xs, state, leaves = make_cell_and_inputs(spec, inputs)
    options = {} if probe is None else {"probe": probe}
    result = unroll(cell, xs, state, mask=mask, backward=backward, **options)
    assert_equal_with_gradients(result, unroll_rows(cell, xs, state, mask, backward), leaves)


@every_fused_cell
@given(mask=masks(B, S), backward=st.booleans(), two=st.booleans())
@settings(max_examples=25, deadline=None)
def test_fused_kernel_equals_loop(spec, mask, backward, two):
    cell, xs, state, leaves = make_cell_and_inputs(spec, (E, 2) if two else (E,))
    fused = unroll(cell, xs, state, mask=mask, backward=backward)
    loop = unroll(cell, xs, state, mask=mask, backward=backward, probe=identity_probe)
    assert_equal_with_gradients(fused, loop, leaves)
    assert not fused[0][~mask].any()


@every_fused_cell
@in_both_directions
def test_fused_kernel_equals_loop_in_float32(spec, backward):
    torch.manual_seed(3)
    cell = randomize_parameters(build("cell", spec, E, H), torch.float32)
    x, state = rand(B, S, E, dtype=torch.float32), make_state(cell, B, torch.float32)
    fused = unroll(cell, (x,), state, mask=GAPS, backward=backward)
    loop = unroll(cell, (x,), state, mask=GAPS, backward=backward, probe=identity_probe)
    assert_equal_with_gradients(fused, loop, [x, *state, *cell.parameters()], 2e-5)


@every_cell
@pytest.mark.parametrize("probe", [None, identity_probe], ids=["no probe", "probe"])
def test_row_of_only_padding_keeps_its_state(spec, probe):
    cell, xs, state, leaves = make_cell_and_inputs(spec)
    mask = GAPS.clone()
    mask[1] = False
    options = {} if probe is None else {"probe": probe}
    h, final = unroll(cell, xs, state, mask=mask, **options)
    assert_equal([part[1] for part in final], [part[1] for part in state])
    assert_equal_with_gradients((h, final), unroll_rows(cell, xs, state, mask), leaves)


@every_cell
@in_both_directions
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_padding_values_change_nothing(spec, backward, size):
    cell, (x,), state, leaves = make_cell_and_inputs(spec)
    other = torch.where(GAPS[..., None], x, size * torch.randn_like(x))
    result = unroll(cell, (other,), state, mask=GAPS, backward=backward)
    assert_equal_with_gradients(result, unroll(cell, (x,), state, mask=GAPS, backward=backward), leaves)


@every_cell
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_stack_equals_layers_one_by_one(spec, bidirectional):
    torch.manual_seed(4)
    stack = randomize_parameters(
        StackedRNN(E, H, cell=spec, layers=2, bidirectional=bidirectional, initial_state="learned")
    )
    x, D = rand(B, S, E), 1 + bidirectional
    n_tensors = len(stack.state_names)
    below, finals = x, []
    for n in range(2):
        initial = [v.expand(B, -1).split(H, -1) for v in stack.initial[n * n_tensors : (n + 1) * n_tensors]]
        directions = [
            unroll_rows(stack.cells[n * D + d], (below,), tuple(v[d] for v in initial), GAPS, backward=d == 1)
            for d in range(D)
        ]
        below = torch.cat([h for h, _ in directions], -1)
        finals.append(tuple(torch.cat(part, -1) for part in zip(*(final for _, final in directions), strict=True)))
    assert stack.output_size == D * H
    leaves = [x, *stack.parameters()]
    assert_equal_with_gradients(stack(x, GAPS), (below, finals), leaves)
    assert_equal_with_gradients(stack(x, GAPS, probe=identity_probe), (below, finals), leaves)


@every_cell
@pytest.mark.parametrize("initial_state", ["zero", "learned"])
def test_given_state_replaces_initial_state(spec, initial_state):
    torch.manual_seed(5)
    stack = randomize_parameters(
        StackedRNN(E, H, cell=spec, layers=2, bidirectional=True, initial_state=initial_state)
    )
    x = rand(B, S, E)
    given_state = tuple(tuple(rand(B, 2 * H) for _ in stack.state_names) for _ in range(2))
    leaves = [x, *(t for s in given_state for t in s), *stack.parameters()]
    result = stack(x, GAPS, given_state)
    assert_equal_with_gradients(result, stack(x, GAPS, given_state, probe=identity_probe), leaves)
    assert not any(g.any() for g in gradients(result, stack.initial))
    default = stack.initial_state(x)
    assert_equal_with_gradients(stack(x, GAPS, default), stack(x, GAPS), [x, *stack.parameters()])
    if initial_state == "zero":
        assert not any(part.any() for layer in default for part in layer)


@every_cell
def test_learned_initial_states_start_at_zero_and_get_gradients(spec):
    torch.manual_seed(6)
    learned = StackedRNN(E, H, cell=spec, layers=2, bidirectional=True, initial_state="learned")
    assert len(learned.initial) == 2 * len(learned.state_names)
    assert not any(v.any() for v in learned.initial)
    x = rand(B, S, E, dtype=torch.float32)
    assert all(g.any() for g in gradients(learned(x, GAPS), learned.initial))


@every_cell
def test_continuing_from_final_state_equals_one_run(spec):
    torch.manual_seed(7)
    stack = randomize_parameters(StackedRNN(E, H, cell=spec, layers=2))
    x, mask = rand(B, S, E), torch.tensor([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0]]).bool()
    start, state = stack(x[:, :2], mask[:, :2])
    rest, final = stack(x[:, 2:], mask[:, 2:], state)
    assert_equal_with_gradients((torch.cat((start, rest), 1), final), stack(x, mask), [x, *stack.parameters()])


def test_dropout_only_between_layers():
    """A dropout of 1 zeroes everything between the layers, and nothing else."""
    torch.manual_seed(8)
    stack = randomize_parameters(
        StackedRNN(E, H, cell="gru", layers=2, dropout=1.0)
    )  # drops everything between layers
    x = rand(B, S, E)
    below, final_below = unroll(stack.cells[0], (x,), stack.initial_state(x)[0])
    top, final_top = unroll(stack.cells[1], (torch.zeros_like(below),), stack.initial_state(x)[1])
    assert_equal(stack(x), (top, (final_below, final_top)))
    assert not torch.allclose(stack.eval()(x)[0], top)


@every_cell
def test_probe_names(spec):
    torch.manual_seed(9)
    stack, probe = randomize_parameters(StackedRNN(E, H, cell=spec, layers=2, bidirectional=True)), RecordingProbe()
    stack(rand(1, 2, E), probe=probe)
    names = {*stack.cells[0].blocks, *stack.cells[0].state_names}
    assert set(probe.recorded) == {
        f"{n}.{direction}.{name}[{t}]"
        for n in range(2)
        for direction in ("forward", "backward")
        for t in range(2)
        for name in names
    }


def test_probe_can_freeze_the_lstm_cell_state():
    torch.manual_seed(10)
    cell, (x,), state, _ = make_cell_and_inputs("lstm")
    _, (_, c) = unroll(cell, (x,), state, probe=RecordingProbe(forget=1.0, input=0.0))
    assert_equal(c, state[1])
    _, (h, _) = unroll(cell, (x,), state, probe=RecordingProbe(output=0.0))
    assert_equal(h, torch.zeros_like(h))


@pytest.mark.parametrize("bad", [1, H + 1], ids=["one layer", "too wide"])
def test_initial_state_of_wrong_shape_is_an_error(bad):
    stack = StackedRNN(E, H, cell="elman", layers=2)
    state = ((torch.zeros(B, H),),) if bad == 1 else ((torch.zeros(B, bad),),) * 2
    with pytest.raises(ShapeError, match=r"each of 2 layers.*\(3, 4\); got"):
        stack(torch.zeros(B, S, E), None, state)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_fused_kernels_get_contiguous_initial_states(name, monkeypatch):
    """GPU kernels require it, and the initial state is often one vector expanded to all rows."""
    states = []
    original = getattr(torch, name)

    def spy(x, initial, *more):
        states.extend([initial] if isinstance(initial, torch.Tensor) else initial)
        return original(x, initial, *more)

    monkeypatch.setattr(torch, name, spy)
    x, h = torch.randn(3, 2, 4), torch.zeros(4).expand(3, -1)
    blocks = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[name]
    weights = [torch.randn(4 * blocks, 4), torch.randn(4 * blocks, 4), *torch.zeros(2, 4 * blocks)]
    {"lstm": lambda: fused.lstm(x, h, h, weights), "gru": lambda: fused.gru(x, h, weights),
     "rnn_tanh": lambda: fused.elman(x, h, weights)}[name]()  # fmt: skip
    assert states
    assert all(state.is_contiguous() for state in states)


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (torch.ones(B, S + 4, dtype=torch.bool), ShapeError),
        (torch.ones(B, S), ShapeError),
        (torch.zeros(B, S, dtype=torch.bool), InputError),
    ],
    ids=["too long", "float", "only padding"],
)
def test_invalid_mask_is_an_error(mask, error):
    with pytest.raises(error, match="mask"):
        StackedRNN(E, H)(torch.randn(B, S, E), mask)


def test_sequence_of_length_zero_is_an_error():
    with pytest.raises(InputError, match="at least one step"):
        StackedRNN(E, H)(torch.randn(B, 0, E))


@pytest.mark.parametrize(
    ("cell", "name"),
    [("lstm", "lstm"), ("elman", "rnn_tanh"), ({"name": "gru", "reset_after": True}, "gru"), ("gru", None)],
    ids=str,
)
def test_fused_kernel_is_used(cell, name, monkeypatch):
    """The fused kernel is much faster; losing it would otherwise go unnoticed."""
    called = []

    def spy(name):
        kernel = getattr(torch, name)
        return lambda *args: called.append(name) or kernel(*args)

    for kernel in ("lstm", "rnn_tanh", "gru"):
        monkeypatch.setattr(torch, kernel, spy(kernel))
    mask = torch.arange(S) < LENGTHS[:, None]
    StackedRNN(E, H, cell=cell, bidirectional=True)(torch.randn(B, S, E), mask)
    assert called == ([] if name is None else [name, name])


@pytest.mark.parametrize("cell", parts("cell"))
@pytest.mark.parametrize("size", [2, 7])
def test_input_of_wrong_size_is_an_error(cell, size):
    """The fused LSTM does not check it, and would read out of bounds."""
    with pytest.raises(ShapeError, match=rf"sizes \[3\], but got sizes \[{size}\]"):
        StackedRNN(3, 4, cell=cell)(torch.randn(2, 5, size))

"""A cell over time: against torch.nn, the fused twin against the loop, any mask, given and learned first states."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seqloom.errors import InputError, SizeError
from seqloom.nn import fused
from seqloom.nn.recurrent import Recurrent, over_time
from seqloom.registry import build, parts
from tests.nn.helpers import (
    CELLS,
    Recorder,
    assert_equal,
    assert_equal_with_gradients,
    gradients,
    make_cell,
    make_state,
    masks,
    mixed,
    rand,
    shaken,
    unchanged,
)
from tests.variants import label

E, H, B, S = 3, 4, 3, 5
TORCH = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
TWINS = [spec for spec in CELLS if build("cell", spec, 1, 1).has_twin]
assert TORCH.keys() <= {spec["name"] for spec in TWINS}
every_cell = pytest.mark.parametrize("spec", CELLS, ids=label)
every_twin = pytest.mark.parametrize("spec", TWINS, ids=label)
in_both_directions = pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
LENGTHS = torch.tensor([3, 5, 1])
HOLES = torch.tensor([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0]]).bool()


def signs(cell):
    """−1 for the update gate of a GRU, whose sense PyTorch turns."""
    turned = torch.ones_like(cell.bias)
    return torch.cat([-b if name == "update" else b for name, b in cell.named_blocks(turned).items()])


def as_torch(ours, spec):
    """torch.nn's recurrence with our weights; its second bias is zero but for the GRU's candidate."""
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
    """Outputs and, layer by layer, the last state with directions side by side: in our shape."""
    if mask is None:
        y, last = theirs(x)
    else:
        packed = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
        y, last = theirs(packed)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    parts = last if isinstance(last, tuple) else (last,)
    by_layer = [part.unflatten(0, (theirs.num_layers, -1)).transpose(1, 2).flatten(2) for part in parts]
    return y, tuple(zip(*by_layer, strict=True))


def paired_weights(ours, theirs):
    """Our parameters and, for each, PyTorch's gradient of it."""
    for cell, weights in zip(ours.cells, theirs.all_weights, strict=True):
        W, U, b, b2 = (w.grad for w in weights)
        yield cell.inputs[0], W * signs(cell)[:, None]
        yield cell.recurrent, U * signs(cell)[:, None]
        yield cell.bias, b * signs(cell)
        if hasattr(cell, "candidate_bias"):
            yield cell.candidate_bias, b2[2 * ours.size :]


@pytest.mark.parametrize("spec", [s for s in TWINS if s["name"] in TORCH], ids=label)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "padded"])
def test_equals_torch_nn(spec, dtype, layers, bidirectional, masked):
    torch.manual_seed(1)
    tolerance = 1e-10 if dtype is torch.float64 else 2e-5
    ours = shaken(Recurrent(E, H, cell=spec, layers=layers, bidirectional=bidirectional), dtype)
    theirs = as_torch(ours, spec)
    mask = torch.arange(S) < LENGTHS[:, None] if masked else None
    x, x2 = rand(B, S, E, dtype=dtype), rand(B, S, E, dtype=dtype)
    x2.data.copy_(x.data)

    result, expected = ours(x, mask), run_torch(theirs, x2, mask)
    assert_equal(result, expected, tolerance)
    with torch.no_grad():
        assert_equal(ours(x, mask), expected, tolerance)
    mixed(result).backward()
    mixed(expected).backward()
    assert_equal(x.grad, x2.grad, tolerance)
    for weight, wanted in paired_weights(ours, theirs):
        assert_equal(weight.grad, wanted, tolerance)


def alone(cell, xs, state, mask=None, backward=False):
    """The reference: every row by itself, only its real steps, one plain step after another."""
    rows = range(len(xs[0]))
    steps = xs[0].shape[1]
    hs, finals = [], []
    for row in rows:
        now = tuple(part[row : row + 1] for part in state)
        h = [torch.zeros_like(now[0][0])] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            if mask is None or mask[row, t]:
                z = sum(cell.project(x[row : row + 1, t], block) for block, x in enumerate(xs))
                out, now = cell(z, now)
                h[t] = out[0]
        hs.append(torch.stack(h))
        finals.append(now)
    return torch.stack(hs), tuple(torch.cat(parts) for parts in zip(*finals, strict=True))


def over(cell, inputs=(E,), seed=2):
    """A cell, its inputs, a first state, and all leaves."""
    torch.manual_seed(seed)
    cell = make_cell(cell, inputs, H)
    xs, state = tuple(rand(B, S, n) for n in cell.input_sizes), make_state(cell, B)
    return cell, xs, state, [*xs, *state, *cell.parameters()]


@every_cell
@in_both_directions
@pytest.mark.parametrize("inputs", [(E,), (H,), (E, 2)])
@pytest.mark.parametrize("mask", [None, HOLES], ids=["full", "holes"])
@pytest.mark.parametrize("probe", [None, unchanged], ids=["silent", "probe"])
def test_each_row_is_as_if_alone_with_its_real_steps(spec, backward, inputs, mask, probe):
    cell, xs, state, leaves = over(spec, inputs)
    more = {} if probe is None else {"probe": probe}
    result = over_time(cell, xs, state, mask=mask, backward=backward, **more)
    assert_equal_with_gradients(result, alone(cell, xs, state, mask, backward), leaves)


@every_twin
@given(mask=masks(B, S), backward=st.booleans(), two=st.booleans())
@settings(max_examples=25, deadline=None)
def test_fused_twin_is_the_loop(spec, mask, backward, two):
    cell, xs, state, leaves = over(spec, (E, 2) if two else (E,))
    fused = over_time(cell, xs, state, mask=mask, backward=backward)
    loop = over_time(cell, xs, state, mask=mask, backward=backward, probe=unchanged)
    assert_equal_with_gradients(fused, loop, leaves)
    assert not fused[0][~mask].any()


@every_twin
@in_both_directions
def test_fused_twin_is_the_loop_in_float32(spec, backward):
    torch.manual_seed(3)
    cell = shaken(build("cell", spec, E, H), torch.float32)
    x, state = rand(B, S, E, dtype=torch.float32), make_state(cell, B, torch.float32)
    fused = over_time(cell, (x,), state, mask=HOLES, backward=backward)
    loop = over_time(cell, (x,), state, mask=HOLES, backward=backward, probe=unchanged)
    assert_equal_with_gradients(fused, loop, [x, *state, *cell.parameters()], 2e-5)


@every_cell
@pytest.mark.parametrize("probe", [None, unchanged], ids=["silent", "probe"])
def test_a_row_with_nothing_real_keeps_its_state(spec, probe):
    cell, xs, state, leaves = over(spec)
    mask = HOLES.clone()
    mask[1] = False
    more = {} if probe is None else {"probe": probe}
    h, last = over_time(cell, xs, state, mask=mask, **more)
    assert_equal([part[1] for part in last], [part[1] for part in state])
    assert_equal_with_gradients((h, last), alone(cell, xs, state, mask), leaves)


@every_cell
@in_both_directions
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_what_stands_in_the_padding_changes_nothing(spec, backward, size):
    cell, (x,), state, leaves = over(spec)
    other = torch.where(HOLES[..., None], x, size * torch.randn_like(x))
    result = over_time(cell, (other,), state, mask=HOLES, backward=backward)
    assert_equal_with_gradients(result, over_time(cell, (x,), state, mask=HOLES, backward=backward), leaves)


@every_cell
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])
def test_a_stack_is_its_layers_one_on_the_other(spec, bidirectional):
    torch.manual_seed(4)
    stack = shaken(Recurrent(E, H, cell=spec, layers=2, bidirectional=bidirectional, initial="learned"))
    x, D = rand(B, S, E), 1 + bidirectional
    parts = len(stack.parts)
    below, finals = x, []
    for n in range(2):
        firsts = [v.expand(B, -1).split(H, -1) for v in stack.initial[n * parts : (n + 1) * parts]]
        ways = [
            alone(stack.cells[n * D + d], (below,), tuple(first[d] for first in firsts), HOLES, backward=d == 1)
            for d in range(D)
        ]
        below = torch.cat([h for h, _ in ways], -1)
        finals.append(tuple(torch.cat(part, -1) for part in zip(*(last for _, last in ways), strict=True)))
    assert stack.output_size == D * H
    leaves = [x, *stack.parameters()]
    assert_equal_with_gradients(stack(x, HOLES), (below, finals), leaves)
    assert_equal_with_gradients(stack(x, HOLES, probe=unchanged), (below, finals), leaves)


@every_cell
@pytest.mark.parametrize("initial", ["zero", "learned"])
def test_a_given_state_replaces_the_first(spec, initial):
    torch.manual_seed(5)
    stack = shaken(Recurrent(E, H, cell=spec, layers=2, bidirectional=True, initial=initial))
    x = rand(B, S, E)
    given_state = tuple(tuple(rand(B, 2 * H) for _ in stack.parts) for _ in range(2))
    leaves = [x, *(t for s in given_state for t in s), *stack.parameters()]
    result = stack(x, HOLES, given_state)
    assert_equal_with_gradients(result, stack(x, HOLES, given_state, probe=unchanged), leaves)
    assert not any(g.any() for g in gradients(result, stack.initial))
    own = stack.first_state(x)
    assert_equal_with_gradients(stack(x, HOLES, own), stack(x, HOLES), [x, *stack.parameters()])
    if initial == "zero":
        assert not any(part.any() for layer in own for part in layer)


@every_cell
def test_learned_first_states_begin_at_zero_and_get_gradients(spec):
    torch.manual_seed(6)
    learned = Recurrent(E, H, cell=spec, layers=2, bidirectional=True, initial="learned")
    assert len(learned.initial) == 2 * len(learned.parts)
    assert not any(v.any() for v in learned.initial)
    x = rand(B, S, E, dtype=torch.float32)
    assert all(g.any() for g in gradients(learned(x, HOLES), learned.initial))


@every_cell
def test_continuing_from_the_last_state_is_running_on(spec):
    torch.manual_seed(7)
    stack = shaken(Recurrent(E, H, cell=spec, layers=2))
    x, mask = rand(B, S, E), torch.tensor([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0]]).bool()
    first, state = stack(x[:, :2], mask[:, :2])
    second, last = stack(x[:, 2:], mask[:, 2:], state)
    assert_equal_with_gradients((torch.cat((first, second), 1), last), stack(x, mask), [x, *stack.parameters()])


def test_dropout_is_between_layers_only():
    torch.manual_seed(8)
    stack = shaken(Recurrent(E, H, cell="gru", layers=2, dropout=1.0))  # all that passes is dropped
    x = rand(B, S, E)
    below, low = over_time(stack.cells[0], (x,), stack.first_state(x)[0])
    nothing, high = over_time(stack.cells[1], (torch.zeros_like(below),), stack.first_state(x)[1])
    assert_equal(stack(x), (nothing, (low, high)))
    assert not torch.allclose(stack.eval()(x)[0], nothing)


@every_cell
def test_names_that_a_probe_hears(spec):
    torch.manual_seed(9)
    stack, probe = shaken(Recurrent(E, H, cell=spec, layers=2, bidirectional=True)), Recorder()
    stack(rand(1, 2, E), probe=probe)
    names = {*stack.cells[0].blocks, *stack.cells[0].parts}
    assert set(probe.seen) == {
        f"{n}.{way}.{name}[{t}]"
        for n in range(2)
        for way in ("forward", "backward")
        for t in range(2)
        for name in names
    }


def test_a_probe_can_hold_the_memory_of_an_lstm_through_time():
    torch.manual_seed(10)
    cell, (x,), state, _ = over("lstm")
    _, (_, c) = over_time(cell, (x,), state, probe=Recorder(forget=1.0, input=0.0))
    assert_equal(c, state[1])
    _, (h, _) = over_time(cell, (x,), state, probe=Recorder(output=0.0))
    assert_equal(h, torch.zeros_like(h))


@pytest.mark.parametrize("bad", [1, H + 1], ids=["one layer", "too wide"])
def test_states_that_do_not_fit_are_refused(bad):
    stack = Recurrent(E, H, cell="elman", layers=2)
    state = ((torch.zeros(B, H),),) if bad == 1 else ((torch.zeros(B, bad),),) * 2
    with pytest.raises(SizeError, match=r"each of 2 layers.*\(3, 4\); given"):
        stack(torch.zeros(B, S, E), None, state)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_fused_recurrences_get_their_first_state_in_one_piece(name, monkeypatch):
    """On a GPU they take no other, and the first state is often one vector for all rows."""
    taken = []
    original = getattr(torch, name)

    def spy(x, first, *more):
        taken.extend([first] if isinstance(first, torch.Tensor) else first)
        return original(x, first, *more)

    monkeypatch.setattr(torch, name, spy)
    x, h = torch.randn(3, 2, 4), torch.zeros(4).expand(3, -1)
    blocks = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[name]
    weights = [torch.randn(4 * blocks, 4), torch.randn(4 * blocks, 4), *torch.zeros(2, 4 * blocks)]
    {"lstm": lambda: fused.lstm(x, h, h, weights), "gru": lambda: fused.gru(x, h, weights),
     "rnn_tanh": lambda: fused.elman(x, h, weights)}[name]()  # fmt: skip
    assert taken
    assert all(state.is_contiguous() for state in taken)


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (torch.ones(B, S + 4, dtype=torch.bool), SizeError),
        (torch.ones(B, S), SizeError),
        (torch.zeros(B, S, dtype=torch.bool), InputError),
    ],
    ids=["too long", "float", "nothing real"],
)
def test_a_mask_that_does_not_fit_is_refused_whatever_it_holds(mask, error):
    with pytest.raises(error, match="mask"):
        Recurrent(E, H)(torch.randn(B, S, E), mask)


def test_no_step_at_all_is_refused():
    with pytest.raises(InputError, match="at least one step"):
        Recurrent(E, H)(torch.randn(B, 0, E))


@pytest.mark.parametrize(
    ("cell", "name"),
    [("lstm", "lstm"), ("elman", "rnn_tanh"), ({"name": "gru", "reset": "after"}, "gru"), ("gru", None)],
    ids=str,
)
def test_the_fused_recurrence_is_what_runs(cell, name, monkeypatch):
    """It is what makes the difference in speed, so it must not be lost unseen."""
    ran = []

    def spied(fast):
        run = getattr(torch, fast)
        return lambda *given: ran.append(fast) or run(*given)

    for fast in ("lstm", "rnn_tanh", "gru"):
        monkeypatch.setattr(torch, fast, spied(fast))
    mask = torch.arange(S) < LENGTHS[:, None]
    Recurrent(E, H, cell=cell, bidirectional=True)(torch.randn(B, S, E), mask)
    assert ran == ([] if name is None else [name, name])


@pytest.mark.parametrize("cell", parts("cell"))
@pytest.mark.parametrize("width", [2, 7])
def test_an_input_of_another_width_is_refused(cell, width):
    """The fused LSTM does not look, and read beyond its memory."""
    with pytest.raises(SizeError, match=rf"sizes \[3\] was given \[{width}\]"):
        Recurrent(3, 4, cell=cell)(torch.randn(2, 5, width))

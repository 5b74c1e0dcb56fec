"""The backward pass, derived by hand, against autograd on whole models.

An encoder state has three uses: in the next step (or the bridge), as a key, and as a value. A decoder state is used
in the next step, in the readout, and as a query. The gradient of a state is the sum over its uses, and the gradient
of a shared weight is the sum over steps.
"""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from seqloom.batch import Batch, shift
from seqloom.models.build import build_model
from seqloom.nn.memory import Memory
from seqloom.nn.recurrent import unroll
from seqloom.registry import parts
from tests.nn.helpers import (
    CELLS,
    RecordingProbe,
    assert_equal,
    gradients,
    make_cell,
    make_state,
    rand,
    randomize_parameters,
    weighted_sum,
)
from tests.variants import label

S, T, H = 4, 3, 4
BATCH = Batch.from_lists([[5, 6], [7, 3]], [[3, 4, 5, 6], [6, 5, 4, 3]])
every_cell = pytest.mark.parametrize("cell", parts("cell"))
every_variant = pytest.mark.parametrize("spec", CELLS, ids=label)


def make_model(cell, score="additive", context="current"):
    torch.manual_seed(1)
    description = {
        "source_embedder": "tokens",
        "encoder": {"name": "recurrent", "cell": cell},
        "bridge": "copy",
        "decoder": {
            "name": "recurrent",
            "cell": cell,
            "context": context,
            "attention": {"score": score},
            **({"context_input": "first_layer"} if context == "previous" else {}),
        },
        "output": "tokens",
    }
    return randomize_parameters(build_model(description, sizes={"source": 8, "target": 8}, hidden_size=H))


def make_memory(values, keys, state):
    """The memory of the batch, from encoder states and the final state of a cell with one layer."""
    final = {f"final.0.{name}": tensor for name, tensor in zip("hc", state, strict=False)}
    return Memory({"values": values, "mask": BATCH.source.mask, "summary": state[0], **keys, **final})


def loss_from(model, memory):
    """The loss of the batch, given its memory."""
    inputs = shift(model.output.start(memory), BATCH.target)
    decoded = model(inputs, memory)
    return model.output.loss(decoded, memory, BATCH.target).total


@every_cell
@pytest.mark.parametrize("score", ["additive", "dot", "bilinear", "rbf"])
@pytest.mark.parametrize("context", ["current", "previous"])
def test_encoder_state_gradient_is_the_sum_of_recurrent_key_and_value_gradients(cell, score, context):
    model, probe = make_model(cell, score, context), RecordingProbe()
    total = model.loss(BATCH, probe=probe).total
    x = model.source_embedder(BATCH.source).values
    encoder = model.encoder.recurrent.cells[0]

    for t in range(S):
        states = [probe.recorded.get(f"encoder.0.forward.{part}[{t}]") for part in encoder.state_names]
        h, *others = (state.detach() for state in states)
        before = (
            torch.stack([probe.recorded[f"encoder.0.forward.h[{i}]"].detach() for i in range(t)], 1)
            if t
            else h.new_zeros(len(h), 0, H)
        )

        def loss(to_next, as_key, as_value, t=t, before=before, others=others):
            """The loss with a separate copy of h_t for each of its three uses."""
            state, later = (to_next, *others), before[:, :0]
            if t < S - 1:
                later, state = unroll(encoder, (x[:, t + 1 :],), state)
            keys = model.decoder.prepare_memory(torch.cat((before, as_key[:, None], later), 1))
            values = torch.cat((before, as_value[:, None], later), 1)
            return loss_from(model, make_memory(values, keys, state))

        paths = []
        for use in range(3):
            leaf = h.clone().requires_grad_()
            paths.append(torch.autograd.grad(loss(*(leaf if n == use else h for n in range(3))), leaf)[0])
        assert_equal(loss(h, h, h), total)
        assert all(path.any() for path in paths)
        assert_equal(sum(paths), torch.autograd.grad(total, states[0], retain_graph=True)[0])


def loss_with_detached_query(model, step, probe):
    """The loss with the query of one step detached from the graph."""
    compute_weights = model.decoder.attention.compute_weights

    def detach_query(query, *args, **options):
        kept = torch.arange(query.shape[1]) != step
        return compute_weights(torch.where(kept[:, None], query, query.detach()), *args, **options)

    model.decoder.attention.compute_weights = detach_query
    total = model.loss(BATCH, probe=probe).total
    del model.decoder.attention.compute_weights
    return total


@every_cell
def test_decoder_state_gets_the_query_gradient(cell):
    """For the dot product it is Σ_s w_s ((v_s − a) · ∂L/∂a) k_s; the other uses of the state give the rest."""
    model = make_model(cell, "dot")
    contexts = []
    readout = model.decoder.readout.forward

    def with_context(y, s, a):
        contexts.append(a)
        return readout(y, s, a)

    model.decoder.readout.forward = with_context
    for step in range(T):
        full, detached = RecordingProbe(), RecordingProbe()
        total, without = model.loss(BATCH, probe=full).total, loss_with_detached_query(model, step, detached)
        assert_equal(without, total, 0)
        context = contexts[-2]
        name = f"decoder.0.h[{step}]"
        (to_state, to_context) = torch.autograd.grad(total, [full.recorded[name], context])
        (rest,) = torch.autograd.grad(without, detached.recorded[name])
        keys = values = torch.stack([full.recorded[f"encoder.0.forward.h[{s}]"] for s in range(S)], 1)
        weights = full.recorded[f"decoder.attention[{step}]"][:, 0]
        a, g = context[:, step], to_context[:, step]
        by_query = torch.einsum("bs,bsh,bh,bsk->bk", weights, values - a[:, None], g, keys)
        assert by_query.any()
        assert rest.any()
        assert_equal(to_state - rest, by_query)


class OneStep(nn.Module):
    """One full step of a cell, as a module that can be called with other weights."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, state):
        return self.cell(self.cell.project(x), state)


@every_variant
def test_gradient_of_shared_weight_is_the_sum_over_steps(spec):
    torch.manual_seed(2)
    cell = make_cell(spec, 3, H)
    x, initial = rand(2, S, 3), make_state(cell, 2)
    shared = gradients(unroll(cell, (x,), initial), cell.parameters())

    one_step = OneStep(cell)
    copies = [{n: p.detach().clone().requires_grad_() for n, p in one_step.named_parameters()} for _ in range(S)]
    hs, state = [], initial
    for t in range(S):
        h, state = functional_call(one_step, copies[t], (x[:, t], state))
        hs.append(h)
    unshared = (torch.stack(hs, 1), state)
    by_step = [gradients(unshared, copy.values()) for copy in copies]
    assert_equal([sum(steps) for steps in zip(*by_step, strict=True)], shared)
    assert all(any(g.any() for g in step) for step in by_step)


class DetachH(RecordingProbe):
    """A probe that detaches h from the graph, so that only c connects the steps."""

    def __call__(self, name, tensor):
        tensor = super().__call__(name, tensor)
        return tensor.detach() if name.split("[")[0] == "h" else tensor


@pytest.mark.parametrize("spec", [spec for spec in CELLS if spec["name"] == "lstm"], ids=label)
def test_lstm_cell_state_gradient_is_the_product_of_forget_gates(spec):
    """∂c_t/∂c_{t−1} = diag(f_t) if h is detached; over all steps, their product; the identity without forget gate."""
    torch.manual_seed(3)
    cell = make_cell(spec, 3, H)
    x, (h, c) = rand(1, S, 3), make_state(cell, 1)
    probe = DetachH()
    unroll(cell, (x,), (h, c), probe=probe)
    cell_states = [c, *(probe.recorded[f"c[{t}]"] for t in range(S))]
    product = torch.ones(H, dtype=torch.float64)
    for t in range(S):
        f = probe.recorded[f"forget[{t}]"][0] if spec.get("forget_gate", True) else torch.ones(H, dtype=torch.float64)
        product = product * f
        for start, expected in ((cell_states[t], f), (c, product)):
            rows = [torch.autograd.grad(cell_states[t + 1][0, i], start, retain_graph=True)[0][0] for i in range(H)]
            assert_equal(torch.stack(rows), torch.diag(expected))


@every_variant
def test_gradient_through_time_is_the_product_of_step_jacobians(spec):
    """∂s_S/∂s_0 by autograd over all steps is J_S ⋯ J_1, with each Jacobian J_t computed separately."""
    torch.manual_seed(4)
    cell = make_cell(spec, 3, H)
    x, state = rand(1, S, 3), make_state(cell, 1)
    n = len(state)
    product, current = torch.eye(n * H, dtype=torch.float64), torch.cat(state, 1)[0].detach()

    def step(vector, t):
        _, new = cell(cell.project(x[:, t]), vector[None].chunk(n, 1))
        return torch.cat(new, 1)[0]

    for t in range(S):
        product = torch.autograd.functional.jacobian(lambda v, t=t: step(v, t), current) @ product
        current = step(current, t).detach()

    def whole(vector):
        return torch.cat(unroll(cell, (x,), vector[None].chunk(n, 1))[1], 1)[0]

    assert_equal(torch.autograd.functional.jacobian(whole, torch.cat(state, 1)[0].detach()), product)
    assert weighted_sum(product) != 0

"""The backward pass as the lectures derive it by hand, against autograd on whole models.

A state of the encoder is read three times: by the next step (or the bridge), as a key, and as a value. A state of
the decoder is read by the next step, by the readout, and as a query. The gradient of each is the sum over its
readers; the gradient of a shared weight is the sum over its uses.
"""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from seqloom.batch import Batch, shift
from seqloom.models.build import build_model
from seqloom.nn.memory import Memory
from seqloom.nn.recurrent import over_time
from seqloom.registry import parts
from tests.nn.helpers import (
    CELLS,
    Recorder,
    assert_equal,
    gradients,
    make_cell,
    make_state,
    mixed,
    rand,
    shaken,
)
from tests.variants import label

S, T, H = 4, 3, 4
BATCH = Batch.of([[5, 6], [7, 3]], [[3, 4, 5, 6], [6, 5, 4, 3]])
every_cell = pytest.mark.parametrize("cell", parts("cell"))
every_variant = pytest.mark.parametrize("spec", CELLS, ids=label)


def model_of(cell, score="additive", context="current"):
    torch.manual_seed(1)
    description = {
        "source": "tokens",
        "encoder": {"name": "recurrent", "cell": cell},
        "bridge": "state",
        "decoder": {
            "name": "recurrent",
            "cell": cell,
            "context": context,
            "attention": {"score": score},
            **({"into": "cell"} if context == "previous" else {}),
        },
        "output": "tokens",
    }
    return shaken(build_model(description, sizes={"source": 8, "target": 8}, size=H))


def memory_of(values, keys, state):
    """What the encoder left, an LSTM's or another cell's one layer."""
    final = {f"final.0.{name}": tensor for name, tensor in zip("hc", state, strict=False)}
    return Memory({"values": values, "mask": BATCH.source.mask, "summary": state[0], **keys, **final})


def loss_from(model, memory):
    """The loss of the batch, given what the encoder left."""
    inputs = shift(model.output.start(memory), BATCH.target)
    decoded = model(inputs, memory)
    return model.output.loss(decoded, memory, BATCH.target).total


@every_cell
@pytest.mark.parametrize("score", ["additive", "dot", "bilinear", "rbf"])
@pytest.mark.parametrize("context", ["current", "previous"])
def test_an_encoder_state_gets_its_recurrent_key_and_value_gradients(cell, score, context):
    model, probe = model_of(cell, score, context), Recorder()
    total = model.loss(BATCH, probe=probe).total
    x = model.source(BATCH.source).values
    encoder = model.encoder.recurrent.cells[0]

    for t in range(S):
        states = [probe.seen.get(f"encoder.0.forward.{part}[{t}]") for part in encoder.parts]
        h, *others = (state.detach() for state in states)
        before = (
            torch.stack([probe.seen[f"encoder.0.forward.h[{i}]"].detach() for i in range(t)], 1)
            if t
            else h.new_zeros(len(h), 0, H)
        )

        def loss(to_next, as_key, as_value, t=t, before=before, others=others):
            """The loss where the three readers of h_t are given it one by one."""
            state, later = (to_next, *others), before[:, :0]
            if t < S - 1:
                later, state = over_time(encoder, (x[:, t + 1 :],), state)
            keys = model.decoder.prepare(torch.cat((before, as_key[:, None], later), 1))
            values = torch.cat((before, as_value[:, None], later), 1)
            return loss_from(model, memory_of(values, keys, state))

        paths = []
        for reader in range(3):
            leaf = h.clone().requires_grad_()
            paths.append(torch.autograd.grad(loss(*(leaf if n == reader else h for n in range(3))), leaf)[0])
        assert_equal(loss(h, h, h), total)
        assert all(path.any() for path in paths)
        assert_equal(sum(paths), torch.autograd.grad(total, states[0], retain_graph=True)[0])


def loss_with_cut_query(model, step, probe):
    """The loss where the query of one step is a constant to autograd."""
    weigh = model.decoder.attention.weigh

    def cut(query, *args, **more):
        kept = torch.arange(query.shape[1]) != step
        return weigh(torch.where(kept[:, None], query, query.detach()), *args, **more)

    model.decoder.attention.weigh = cut
    total = model.loss(BATCH, probe=probe).total
    del model.decoder.attention.weigh
    return total


@every_cell
def test_a_decoder_state_gets_the_gradient_of_its_query(cell):
    """For the dot product it is Σ_s w_s ((v_s − a) · ∂L/∂a) k_s, and the readers beside it give the rest."""
    model = model_of(cell, "dot")
    contexts = []
    readout = model.decoder.readout.forward

    def with_context(y, s, a):
        contexts.append(a)
        return readout(y, s, a)

    model.decoder.readout.forward = with_context
    for step in range(T):
        full, cut = Recorder(), Recorder()
        total, without = model.loss(BATCH, probe=full).total, loss_with_cut_query(model, step, cut)
        assert_equal(without, total, 0)
        context = contexts[-2]
        name = f"decoder.0.h[{step}]"
        (to_state, to_context) = torch.autograd.grad(total, [full.seen[name], context])
        (rest,) = torch.autograd.grad(without, cut.seen[name])
        keys = values = torch.stack([full.seen[f"encoder.0.forward.h[{s}]"] for s in range(S)], 1)
        weights = full.seen[f"decoder.attention[{step}]"][:, 0]
        a, g = context[:, step], to_context[:, step]
        by_query = torch.einsum("bs,bsh,bh,bsk->bk", weights, values - a[:, None], g, keys)
        assert by_query.any()
        assert rest.any()
        assert_equal(to_state - rest, by_query)


class Once(nn.Module):
    """One whole step of a cell, so that it can be called with weights of its own."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, state):
        return self.cell(self.cell.project(x), state)


@every_variant
def test_the_gradient_of_a_shared_weight_is_the_sum_over_steps(spec):
    torch.manual_seed(2)
    cell = make_cell(spec, 3, H)
    x, first = rand(2, S, 3), make_state(cell, 2)
    shared = gradients(over_time(cell, (x,), first), cell.parameters())

    once = Once(cell)
    copies = [{n: p.detach().clone().requires_grad_() for n, p in once.named_parameters()} for _ in range(S)]
    hs, state = [], first
    for t in range(S):
        h, state = functional_call(once, copies[t], (x[:, t], state))
        hs.append(h)
    unshared = (torch.stack(hs, 1), state)
    by_step = [gradients(unshared, copy.values()) for copy in copies]
    assert_equal([sum(steps) for steps in zip(*by_step, strict=True)], shared)
    assert all(any(g.any() for g in step) for step in by_step)


class CutState(Recorder):
    """A probe that makes h a constant to autograd, so that only c links the steps."""

    def __call__(self, name, tensor):
        seen = super().__call__(name, tensor)
        return seen.detach() if name.split("[")[0] == "h" else seen


@pytest.mark.parametrize("spec", [spec for spec in CELLS if spec["name"] == "lstm"], ids=label)
def test_the_memory_of_an_lstm_passes_gradients_by_its_forget_gates_alone(spec):
    """∂c_t/∂c_{t−1} = diag(f_t) where h is cut: so over all steps their product, and 1 without a forget gate."""
    torch.manual_seed(3)
    cell = make_cell(spec, 3, H)
    x, (h, c) = rand(1, S, 3), make_state(cell, 1)
    probe = CutState()
    over_time(cell, (x,), (h, c), probe=probe)
    memories = [c, *(probe.seen[f"c[{t}]"] for t in range(S))]
    product = torch.ones(H, dtype=torch.float64)
    for t in range(S):
        f = probe.seen[f"forget[{t}]"][0] if spec.get("forget_gate", True) else torch.ones(H, dtype=torch.float64)
        product = product * f
        for start, wanted in ((memories[t], f), (c, product)):
            rows = [torch.autograd.grad(memories[t + 1][0, i], start, retain_graph=True)[0][0] for i in range(H)]
            assert_equal(torch.stack(rows), torch.diag(wanted))


@every_variant
def test_gradients_through_time_are_products_of_one_step_jacobians(spec):
    """∂h_S/∂s_0 by autograd over all steps is J_S ⋯ J_1, each J_t taken alone."""
    torch.manual_seed(4)
    cell = make_cell(spec, 3, H)
    x, state = rand(1, S, 3), make_state(cell, 1)
    n = len(state)
    product, now = torch.eye(n * H, dtype=torch.float64), torch.cat(state, 1)[0].detach()

    def step(vector, t):
        _, new = cell(cell.project(x[:, t]), vector[None].chunk(n, 1))
        return torch.cat(new, 1)[0]

    for t in range(S):
        product = torch.autograd.functional.jacobian(lambda v, t=t: step(v, t), now) @ product
        now = step(now, t).detach()

    def whole(vector):
        return torch.cat(over_time(cell, (x,), vector[None].chunk(n, 1))[1], 1)[0]

    assert_equal(torch.autograd.functional.jacobian(whole, torch.cat(state, 1)[0].detach()), product)
    assert mixed(product) != 0

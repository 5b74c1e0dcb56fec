"""What every registered output must do. Its targets are what it draws itself, which it must be able to judge."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import Padded, shift
from seqloom.nn.memory import DecoderOutput, DecoderState
from seqloom.nn.outputs import Categorical, Loss
from tests.contract.runs import randomised, same
from tests.variants import every, label

V, SIZE, LENGTHS = 7, 4, (4, 2, 1)
SOURCES = [[4, 5, 6], [3], [5, 6]]
every_output = pytest.mark.parametrize("spec", every("output"), ids=label)
pytestmark = every_output


@pytest.fixture(params=["luong", "transformer"])
def model(spec, request):
    settings = {"output": spec}
    built = build_model(request.param, sizes={"source": V, "target": V}, size=SIZE, settings=settings)
    return randomised(built.double().eval(), 3)


@pytest.fixture
def batch(model) -> Batch:
    """Targets drawn step by step, of different lengths."""
    given = Batch.of(None, SOURCES)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        memory = model.encode(given)
        state, last, drawn = model.initial_state(memory), model.output.start(memory), []
        for _ in range(max(LENGTHS)):
            step = model.step(last, state, memory)
            last, state = model.output.sample(step, memory, generator=generator), step.state
            drawn.append(last)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return Batch({**given.fields, "target": Padded(torch.stack(drawn, 1), mask)})


def run(model, batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory, attention=True), inputs, memory


def rows_of(batch: Batch, row: int, steps: int) -> Batch:
    target = Padded(*(tensor[row : row + 1, :steps] for tensor in batch.target))
    return Batch({**Batch.of(None, [SOURCES[row]]).fields, "target": target})


def one_step(decoded: DecoderOutput, t: int) -> DecoderOutput:
    attention = None if decoded.attention is None else decoded.attention[:, t : t + 1]
    return DecoderOutput(decoded.features[:, t : t + 1], attention, DecoderState())


@torch.no_grad()
def test_what_is_fed_has_its_size_for_a_step_and_for_a_target(model, batch):
    decoded, inputs, memory = run(model, batch)
    first = model.output.start(memory)
    assert first.shape == inputs[:, 0].shape == (len(SOURCES), *batch.target.values.shape[2:])
    assert model.output.feed(inputs).shape == (*inputs.shape[:2], model.output.input_size)
    same(model.output.feed(first), model.output.feed(inputs)[:, 0])
    assert decoded.features.shape[:2] == inputs.shape[:2]


@torch.no_grad()
def test_the_loss_of_a_target_is_the_sum_of_those_of_its_steps(model, batch):
    decoded, inputs, memory = run(model, batch)
    state, total = model.initial_state(memory), torch.zeros(())
    for t in range(inputs.shape[1]):
        step = model.step(inputs[:, t], state, memory)
        state = step.state
        here = Padded(batch.target.values[:, t : t + 1], batch.target.mask[:, t : t + 1])
        whole = DecoderOutput(*(None if x is None else x[:, None] for x in step[:2]), state)
        same(
            model.output.loss(whole, memory, here).total, model.output.loss(one_step(decoded, t), memory, here).total
        )
        total = total + model.output.loss(whole, memory, here).total
    same(model.output.loss(decoded, memory, batch.target).total, total)


def test_a_loss_is_a_sum_over_real_steps(model, batch):
    loss = model.loss(batch)
    assert isinstance(loss, Loss)
    assert loss.steps == sum(LENGTHS)
    assert not loss.shown.requires_grad
    same(loss.shown, loss.total.detach())
    gradients = torch.autograd.grad(loss.total, list(model.output.parameters()), allow_unused=True)
    assert all(g is not None and g.isfinite().all() for g in gradients)


def test_padding_never_changes_a_result(model, batch):
    together = model.loss(batch).total
    alone = [model.loss(rows_of(batch, row, n)).total for row, n in enumerate(LENGTHS)]
    same(together, torch.stack(alone).sum())
    values = batch.target.values.clone()
    values[~batch.target.mask] = values[0, 0].clone()
    same(model.loss(Batch({**batch.fields, "target": Padded(values, batch.target.mask)})).total, together)


@torch.no_grad()
def test_the_mode_is_what_is_drawn_at_temperature_0(model, batch):
    _, inputs, memory = run(model, batch)
    step = model.step(inputs[:, 0], model.initial_state(memory), memory)
    mode = model.output.sample(step, memory, temperature=0)
    assert torch.equal(mode, model.output.sample(step, memory, temperature=0))

    def judged(value):
        one = Padded(value[:, None], torch.ones(len(value), 1, dtype=torch.bool))
        whole = DecoderOutput(*(None if x is None else x[:, None] for x in step[:2]), step.state)
        return model.output.loss(whole, memory, one).total.item()

    drawn = [model.output.sample(step, memory, generator=torch.Generator().manual_seed(n)) for n in range(20)]
    assert judged(mode) <= min(map(judged, drawn)) + 1e-9


@torch.no_grad()
def test_a_generator_decides_what_is_drawn(model, batch):
    _, inputs, memory = run(model, batch)
    step = model.step(inputs[:, 0], model.initial_state(memory), memory)
    before = torch.get_rng_state()
    once, again = (model.output.sample(step, memory, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(once, again)
    assert torch.equal(torch.get_rng_state(), before)
    assert once.shape == inputs[:, 0].shape
    ended = model.output.ended(once)
    assert ended is None or (ended.dtype == torch.bool and ended.shape == (len(once),))


@torch.no_grad()
def test_log_probabilities_add_up_to_the_loss(model, batch):
    if not isinstance(model.output, Categorical):
        pytest.skip("its values are not tokens")
    _, _, memory = run(model, batch)
    log_probs = torch.cat(list(model.log_probs(batch.target, memory)), 1)
    same(log_probs.exp().sum(-1), torch.ones_like(log_probs[..., 0]))
    picked = log_probs.gather(2, batch.target.values[..., None])[..., 0]
    same(model.loss(batch).total, -picked[batch.target.mask].sum())
    step = model.next_log_probs(model.output.start(memory), model.initial_state(memory), memory)
    same(step.log_probs, log_probs[:, 0])
    decoded = model.step(model.output.start(memory), model.initial_state(memory), memory)
    assert torch.equal(model.output.sample(decoded, memory, temperature=0), step.log_probs.argmax(-1))

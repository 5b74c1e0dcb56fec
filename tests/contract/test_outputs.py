"""The contract of every registered output. Targets are sampled from the output itself."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import Padded, shift
from seqloom.nn.memory import DecoderOutput, DecoderState
from seqloom.nn.outputs import Categorical, Loss
from tests.contract.runs import SMALL, randomized, same
from tests.variants import every, label

V, SIZE, LENGTHS = 7, 4, (4, 2, 1)
SOURCES = [[4, 5, 6], [3], [5, 6]]
every_output = pytest.mark.parametrize("spec", every("output"), ids=label)
pytestmark = every_output


@pytest.fixture(params=["luong", "transformer"])
def model(spec, request):
    overrides = SMALL[request.param] | {"output": spec}
    built = build_model(request.param, sizes={"source": V, "target": V}, hidden_size=SIZE, overrides=overrides)
    return randomized(built.double().eval(), 3)


@pytest.fixture
def batch(model) -> Batch:
    """Targets of different lengths, sampled step by step."""
    given = Batch.from_lists(None, SOURCES)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        memory = model.encode(given)
        state, last, sampled = model.initial_state(memory), model.output.start(memory), []
        for _ in range(max(LENGTHS)):
            step = model.step(last, state, memory)
            last, state = model.output.sample(step, memory, generator=generator), step.state
            sampled.append(last)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return Batch({**given.fields, "target": Padded(torch.stack(sampled, 1), mask)})


def run(model, batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory, attention=True), inputs, memory


def rows_of(batch: Batch, row: int, steps: int) -> Batch:
    target = Padded(*(tensor[row : row + 1, :steps] for tensor in batch.target))
    return Batch({**Batch.from_lists(None, [SOURCES[row]]).fields, "target": target})


def one_step(decoded: DecoderOutput, t: int) -> DecoderOutput:
    attention = None if decoded.attention is None else decoded.attention[:, t : t + 1]
    return DecoderOutput(decoded.features[:, t : t + 1], attention, DecoderState())


@torch.no_grad()
def test_feed_has_input_size_for_a_step_and_for_a_target(model, batch):
    decoded, inputs, memory = run(model, batch)
    first = model.output.start(memory)
    assert first.shape == inputs[:, 0].shape == (len(SOURCES), *batch.target.values.shape[2:])
    assert model.output.feed(inputs).shape == (*inputs.shape[:2], model.output.input_size)
    same(model.output.feed(first), model.output.feed(inputs)[:, 0])
    assert decoded.features.shape[:2] == inputs.shape[:2]


@torch.no_grad()
def test_loss_of_a_target_is_the_sum_over_its_steps(model, batch):
    decoded, inputs, memory = run(model, batch)
    state, total = model.initial_state(memory), torch.zeros(())
    for t in range(inputs.shape[1]):
        step = model.step(inputs[:, t], state, memory)
        state = step.state
        target = Padded(batch.target.values[:, t : t + 1], batch.target.mask[:, t : t + 1])
        stepped = DecoderOutput(*(None if x is None else x[:, None] for x in step[:2]), state)
        loss = model.output.loss(stepped, memory, target).total
        same(loss, model.output.loss(one_step(decoded, t), memory, target).total)
        total = total + loss
    same(model.output.loss(decoded, memory, batch.target).total, total)


def test_loss_counts_non_padding_steps_and_has_gradients(model, batch):
    loss = model.loss(batch)
    assert isinstance(loss, Loss)
    assert loss.steps == sum(LENGTHS)
    assert not loss.reported.requires_grad
    same(loss.reported, loss.total.detach())
    gradients = torch.autograd.grad(loss.total, list(model.output.parameters()), allow_unused=True)
    assert all(g is not None and g.isfinite().all() for g in gradients)


def test_loss_does_not_depend_on_padding(model, batch):
    together = model.loss(batch).total
    alone = [model.loss(rows_of(batch, row, n)).total for row, n in enumerate(LENGTHS)]
    same(together, torch.stack(alone).sum())
    values = batch.target.values.clone()
    values[~batch.target.mask] = values[0, 0].clone()
    same(model.loss(Batch({**batch.fields, "target": Padded(values, batch.target.mask)})).total, together)


@torch.no_grad()
def test_sampling_at_temperature_0_returns_the_mode(model, batch):
    _, inputs, memory = run(model, batch)
    step = model.step(inputs[:, 0], model.initial_state(memory), memory)
    mode = model.output.sample(step, memory, temperature=0)
    assert torch.equal(mode, model.output.sample(step, memory, temperature=0))

    def loss_of(value):
        target = Padded(value[:, None], torch.ones(len(value), 1, dtype=torch.bool))
        stepped = DecoderOutput(*(None if x is None else x[:, None] for x in step[:2]), step.state)
        return model.output.loss(stepped, memory, target).total.item()

    samples = [model.output.sample(step, memory, generator=torch.Generator().manual_seed(n)) for n in range(20)]
    assert loss_of(mode) <= min(map(loss_of, samples)) + 1e-9


@torch.no_grad()
def test_samples_depend_on_the_generator_only(model, batch):
    _, inputs, memory = run(model, batch)
    step = model.step(inputs[:, 0], model.initial_state(memory), memory)
    before = torch.get_rng_state()
    first, second = (model.output.sample(step, memory, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.shape == inputs[:, 0].shape
    ended = model.output.ended(first)
    assert ended is None or (ended.dtype == torch.bool and ended.shape == (len(first),))


@torch.no_grad()
def test_log_probs_are_normalized_and_sum_to_the_loss(model, batch):
    if not isinstance(model.output, Categorical):
        pytest.skip("not a categorical output")
    _, _, memory = run(model, batch)
    log_probs = torch.cat(list(model.log_probs(batch.target, memory)), 1)
    same(log_probs.exp().sum(-1), torch.ones_like(log_probs[..., 0]))
    picked = log_probs.gather(2, batch.target.values[..., None])[..., 0]
    same(model.loss(batch).total, -picked[batch.target.mask].sum())
    step = model.next_log_probs(model.output.start(memory), model.initial_state(memory), memory)
    same(step.log_probs, log_probs[:, 0])
    decoded = model.step(model.output.start(memory), model.initial_state(memory), memory)
    assert torch.equal(model.output.sample(decoded, memory, temperature=0), step.log_probs.argmax(-1))

"""What every registered kind of model must do, made of the parts it has by default."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import shift
from seqloom.registry import find, parts
from tests.contract.runs import randomised

V, SIZE = 7, 4
SOURCES, TARGETS = [[4, 5, 6], [3], [5, 6]], [[5, 4, 6], [3, 3], [6]]
pytestmark = pytest.mark.parametrize("kind", parts("model"))


@pytest.fixture
def model(kind):
    return randomised(made(kind).double().eval(), 3)


def made(kind: str):
    return build_model({"model": kind}, sizes={"source": V, "target": V}, size=SIZE)


def batch_of(kind: str, rows: slice = slice(None)) -> Batch:
    return Batch.of(TARGETS[rows], SOURCES[rows] if find("model", kind).has_source else None)


def teacher_forced(model, batch: Batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory), inputs, memory


@torch.no_grad()
def test_steps_are_forward_and_change_no_state_they_were_given(kind, model):
    decoded, inputs, memory = teacher_forced(model, batch_of(kind))
    state = model.initial_state(memory)
    for t in range(inputs.shape[1]):
        before = {name: tensor.clone() for name, tensor in state.items()}
        step = model.step(inputs[:, t], state, memory)
        assert all(torch.equal(state[name], tensor) for name, tensor in before.items())
        torch.testing.assert_close(step.features, decoded.features[:, t])
        state = step.state


@torch.no_grad()
def test_forward_goes_on_from_a_state(kind, model):
    decoded, inputs, memory = teacher_forced(model, batch_of(kind))
    first = model(inputs[:, :2], memory)
    rest = model(inputs[:, 2:], memory, first.state)
    torch.testing.assert_close(torch.cat((first.features, rest.features), 1), decoded.features)


@torch.no_grad()
def test_an_example_alone_is_what_it_is_in_a_batch(kind, model):
    together = model.loss(batch_of(kind))
    alone = sum(model.loss(batch_of(kind, slice(row, row + 1))).total for row in range(len(TARGETS)))
    torch.testing.assert_close(together.total, alone)


@torch.no_grad()
def test_beams_share_the_memory_of_their_sentence(kind, model):
    _, inputs, memory = teacher_forced(model, batch_of(kind))
    state, twice = model.initial_state(memory), torch.arange(len(TARGETS)).repeat_interleave(2)
    one = model.step(inputs[:, 0], state, memory)
    two = model.step(inputs[twice, 0], state.select(twice), memory)
    torch.testing.assert_close(two.features, one.features[twice])


def test_everything_in_it_learns(kind, model):
    model.loss(batch_of(kind)).total.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@torch.no_grad()
def test_what_runs_at_every_step_is_named(kind, model):
    """No other parameter is read by a step."""
    _, inputs, memory = teacher_forced(model, batch_of(kind))
    state, last = model.initial_state(memory), inputs[:, 0]
    expected = model.next_log_probs(last, state, memory).log_probs
    named = {p for module in model.per_step for p in module.parameters()}
    for parameter in set(model.parameters()) - named:
        parameter.fill_(torch.nan)
    torch.testing.assert_close(model.next_log_probs(last, state, memory).log_probs, expected)


def test_it_is_made_on_another_device(kind):
    with torch.device("meta"):
        model = made(kind)
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))

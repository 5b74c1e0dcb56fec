"""The contract of every registered model type, tested with its default parts."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import shift
from seqloom.registry import get_class, parts
from tests.contract.runs import randomized

V, SIZE = 7, 4
SOURCES, TARGETS = [[4, 5, 6], [3], [5, 6]], [[5, 4, 6], [3, 3], [6]]
pytestmark = pytest.mark.parametrize("kind", parts("model"))


@pytest.fixture
def model(kind):
    return randomized(built(kind).double().eval(), 3)


def built(kind: str):
    return build_model({"type": kind}, sizes={"source": V, "target": V}, hidden_size=SIZE)


def batch_of(kind: str, rows: slice = slice(None)) -> Batch:
    return Batch.from_lists(TARGETS[rows], SOURCES[rows] if get_class("model", kind).has_source else None)


def teacher_forced(model, batch: Batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory), inputs, memory


@torch.no_grad()
def test_step_matches_forward_and_does_not_modify_its_state(kind, model):
    decoded, inputs, memory = teacher_forced(model, batch_of(kind))
    state = model.initial_state(memory)
    for t in range(inputs.shape[1]):
        before = {name: tensor.clone() for name, tensor in state.items()}
        step = model.step(inputs[:, t], state, memory)
        assert all(torch.equal(state[name], tensor) for name, tensor in before.items())
        torch.testing.assert_close(step.features, decoded.features[:, t])
        state = step.state


@torch.no_grad()
def test_forward_continues_from_a_state(kind, model):
    decoded, inputs, memory = teacher_forced(model, batch_of(kind))
    first = model(inputs[:, :2], memory)
    rest = model(inputs[:, 2:], memory, first.state)
    torch.testing.assert_close(torch.cat((first.features, rest.features), 1), decoded.features)


@torch.no_grad()
def test_loss_of_a_batch_is_the_sum_of_its_examples(kind, model):
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


def test_all_parameters_get_gradients(kind, model):
    model.loss(batch_of(kind)).total.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@torch.no_grad()
def test_per_step_has_all_modules_that_a_step_reads(kind, model):
    """Parameters of other modules don't affect a step."""
    _, inputs, memory = teacher_forced(model, batch_of(kind))
    state, last = model.initial_state(memory), inputs[:, 0]
    expected = model.next_log_probs(last, state, memory).log_probs
    per_step = {p for module in model.per_step for p in module.parameters()}
    for parameter in set(model.parameters()) - per_step:
        parameter.fill_(torch.nan)
    torch.testing.assert_close(model.next_log_probs(last, state, memory).log_probs, expected)


def test_model_can_be_built_on_another_device(kind):
    with torch.device("meta"):
        model = built(kind)
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))

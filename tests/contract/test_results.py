"""Results of every combination: the same step by step or at once, alone or in a batch, on any thread or device."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from seqloom import Batch
from seqloom.batch import Padded
from seqloom.nn.memory import DecoderOutput
from tests.contract.runs import LENGTHS, make_batch, same, stepped, teacher_forced


def alone(batch: Batch, row: int) -> Batch:
    """One example of a batch, without padding."""
    return Batch(
        {
            name: Padded(values[row, mask[row]][None], mask[row, mask[row]][None])
            for name, (values, mask) in batch.fields.items()
        }
    )


def same_step(actual: DecoderOutput, expected: DecoderOutput, rows=slice(None)) -> None:
    same(actual.features, expected.features[rows])
    assert (actual.attention is None) == (expected.attention is None)
    if actual.attention is not None:
        same(actual.attention, expected.attention[rows])
    assert actual.state.keys() == expected.state.keys()
    for name, tensor in actual.state.items():
        same(tensor, expected.state[name][rows])


@pytest.mark.parametrize("with_grad", [False, True])  # without gradients, weights are folded into the values
def test_step_matches_forward(model, batch, with_grad):
    with torch.set_grad_enabled(with_grad):
        decoded, inputs, memory = teacher_forced(model, batch)
        steps = stepped(model, inputs, memory)
    same(torch.stack([step.features for step in steps], 1), decoded.features)
    assert all((step.attention is None) == (decoded.attention is None) for step in steps)
    if decoded.attention is None:
        return
    for t, step in enumerate(steps):
        width = step.attention.shape[1]  # attention over the past grows
        same(step.attention, decoded.attention[:, t, :width])
        assert not decoded.attention[:, t, width:].any()


def test_gradients_of_steps_match_forward(model, batch):
    """``forward`` uses custom gradients, single steps those of PyTorch."""
    parameters = list(model.parameters())

    def gradients(features):
        shares = torch.linspace(0.5, 1.5, features.numel(), dtype=features.dtype).view_as(features)
        return torch.autograd.grad((features * shares).sum(), parameters, allow_unused=True)

    decoded, inputs, _ = teacher_forced(model, batch)
    at_once = gradients(decoded.features)
    steps = stepped(model, inputs, model.encode(batch))
    one_by_one = gradients(torch.stack([step.features for step in steps], 1))
    for (name, _), actual, expected in zip(model.named_parameters(), at_once, one_by_one, strict=True):
        assert (actual is None) == (expected is None), name
        if actual is not None:
            same(actual, expected, msg=lambda m, name=name: f"gradient of {name}: {m}")


@torch.no_grad()
def test_attention_weights_are_a_distribution_over_valid_positions(combination, model, batch):
    decoded, _, memory = teacher_forced(model, batch)
    source = "encoder" in combination.row
    past = combination.row.get("context") == "past"
    assert (decoded.attention is not None) == (combination.attends and (source or past))
    if decoded.attention is None:
        return
    assert (decoded.attention >= 0).all()
    sums = decoded.attention.sum(-1)
    T = sums.shape[1]
    if not combination.complete:
        assert (sums <= 1 + 1e-9).all()
        return
    if past:
        first = 0.0 if not combination.row["include_current"] else 1.0
        same(sums, torch.ones_like(sums).index_fill(1, torch.tensor(0), first))
        same(decoded.attention.triu(1 if first else 0), torch.zeros_like(decoded.attention))
        return
    same(sums, torch.ones_like(sums))
    assert not decoded.attention[~memory.mask[:, None].expand(-1, T, -1)].any()


def test_results_do_not_depend_on_other_examples_of_the_batch(model, batch):
    parameters = list(model.parameters())

    def loss_and_gradients(some: Batch):
        loss = model.loss(some)
        given = torch.autograd.grad(loss.total, parameters, allow_unused=True)
        return loss, [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, given, strict=True)]

    together, gradients = loss_and_gradients(batch)
    decoded, _, _ = teacher_forced(model, batch)
    losses, sums = [], [torch.zeros_like(p) for p in parameters]
    for row in range(len(batch.target.values)):
        example = alone(batch, row)
        loss, gradient = loss_and_gradients(example)
        losses.append(loss)
        sums = [s + g for s, g in zip(sums, gradient, strict=True)]
        single, _, _ = teacher_forced(model, example)
        T = example.target.mask.shape[1]
        same(single.features[0], decoded.features[row, :T])
        if single.attention is not None:
            S = single.attention.shape[-1]
            same(single.attention[0], decoded.attention[row, :T, :S])
    same(together.total, torch.stack([loss.total for loss in losses]).sum())
    assert together.steps == sum(loss.steps for loss in losses) == batch.target.mask.sum()
    for (name, _), actual, expected in zip(model.named_parameters(), gradients, sums, strict=True):
        same(actual, expected, msg=lambda m, name=name: f"gradient of {name}: {m}")


@torch.no_grad()
def test_select_does_not_change_the_steps_of_the_rows(model, batch):
    _, inputs, memory = teacher_forced(model, batch)
    rows = torch.tensor([2, 0, 0, 1])
    for t in (0, 2):
        state = stepped(model, inputs[:, :t], memory)[-1].state if t else model.initial_state(memory)
        last = inputs[:, t]
        selected = model.step(last[rows], state.select(rows), memory.select(rows))
        same_step(selected, model.step(last, state, memory), rows)


@torch.no_grad()
def test_initial_state_of_a_selected_memory(model, batch):
    memory = model.encode(batch)
    rows = torch.tensor([1, 2, 1])
    expected, selected = model.initial_state(memory).select(rows), model.initial_state(memory.select(rows))
    assert expected.keys() == selected.keys()
    for name, tensor in expected.items():
        same(selected[name], tensor)


@torch.no_grad()
def test_beams_share_the_memory_of_their_sentence(model, batch):
    K, B = 3, len(batch.target.values)
    memory = model.encode(batch)
    repeated = torch.arange(B).repeat_interleave(K)
    copied_memory = memory.select(repeated)
    shared = copied = model.initial_state(memory).select(repeated)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        last = torch.randint(3, 7, (B * K,), generator=generator)
        with_shared, with_copied = model.step(last, shared, memory), model.step(last, copied, copied_memory)
        same_step(with_shared, with_copied)
        survivors = (torch.randint(0, K, (B, K), generator=generator) + torch.arange(0, B * K, K)[:, None]).flatten()
        shared, copied = with_shared.state.select(survivors), with_copied.state.select(survivors)


@torch.no_grad()
def test_step_does_not_modify_its_state(model, batch):
    memory = model.encode(batch)
    state = stepped(model, batch.target.values[:, :1], memory)[-1].state
    before = {name: tensor.clone() for name, tensor in state.items()}
    model.step(batch.target.values[:, 1], state, memory)
    assert state.keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.items())


def stored_tensors(model) -> dict[int, str]:
    """The paths of all tensors that modules store besides their parameters, also in containers, by id."""
    stored: dict[int, str] = {}

    def visit(value, path: str) -> None:
        if isinstance(value, torch.Tensor):
            stored[id(value)] = path
        elif isinstance(value, dict):
            for key, inner in value.items():
                visit(inner, f"{path}[{key!r}]")
        elif isinstance(value, list | tuple | set):
            for n, inner in enumerate(value):
                visit(inner, f"{path}[{n}]")

    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in ("_parameters", "_modules"):
                visit(value, f"{path}.{name}")
    return stored


def test_modules_store_no_tensors_of_a_call(combination):
    """They would leak into calls from other threads."""
    model = combination.build()
    before = stored_tensors(model)
    batch = make_batch(model)
    model.loss(batch).total.backward()
    with torch.no_grad():
        _, inputs, memory = teacher_forced(model, batch)
        stepped(model, inputs, memory)
    assert {path for tensor, path in stored_tensors(model).items() if tensor not in before} == set()


def test_two_threads_get_the_same_results_as_one(model):
    batches = [make_batch(model, 1), make_batch(model, 2, [(3, 4), (6, 2)])]
    parameters = list(model.parameters())

    def run(batch: Batch):
        with torch.enable_grad():
            total = model.loss(batch).total
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        with torch.no_grad():
            _, inputs, memory = teacher_forced(model, batch)
            return total.detach(), stepped(model, inputs, memory)[-1].features, *gradients

    expected = [run(batch) for batch in batches]
    rounds = 4
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, batches * rounds))
    for n, result in enumerate(results):
        for actual, right in zip(result, expected[n % 2], strict=True):
            assert (actual is None) == (right is None)
            if actual is not None:
                same(actual, right)


@pytest.mark.parametrize("source", ["file", "arrays"])
@torch.no_grad()
def test_weights_can_be_loaded_into_a_new_model(combination, model, batch, source):
    if source == "file":
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        weights = torch.load(file, weights_only=True)
    else:
        weights = {name: torch.from_numpy(tensor.numpy().copy()) for name, tensor in model.state_dict().items()}
    new = combination.build(seed=1)
    expected, inputs, memory = teacher_forced(model, batch)
    logits = model.output.logits(expected.features)
    assert not torch.allclose(new.output.logits(teacher_forced(new, batch)[0].features), logits)
    new.load_state_dict(weights)
    decoded, _, new_memory = teacher_forced(new, batch)
    same(decoded.features, expected.features)
    same(new.output.logits(decoded.features), logits)
    same_step(stepped(new, inputs, new_memory)[-1], stepped(model, inputs, memory)[-1])


def test_model_runs_on_another_device(combination):
    """On ``meta``, where a tensor that is created on the CPU raises an error."""
    from torch.fx.experimental import _config

    with torch.device("meta"):
        model = combination.family.build(combination.row)
    assert all(p.is_meta for p in model.parameters())
    batch = make_batch(model).to("meta")
    with _config.patch(meta_nonzero_assume_all_nonzero=True):
        loss = model.loss(batch)
        loss.total.backward()
    assert loss.total.is_meta
    decoded, inputs, memory = teacher_forced(model, batch)
    last = stepped(model, inputs, memory)[-1]
    B, T = len(LENGTHS), inputs.shape[1]
    assert decoded.features.is_meta
    assert decoded.features.shape == (B, T, model.decoder.output_size)
    assert last.features.shape == (B, model.decoder.output_size)
    assert all(tensor.is_meta for tensor in last.state.values())
    assert model.output.log_probs(last, memory).shape == (B, 7)

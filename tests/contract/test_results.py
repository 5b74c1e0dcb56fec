"""What every combination must do alike: step by step or at once, alone or among others, here or there."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from seqloom import Batch
from seqloom.batch import Padded
from seqloom.nn.memory import DecoderOutput
from tests.contract.runs import LENGTHS, make_batch, same, stepped, teacher_forced


def alone(batch: Batch, row: int) -> Batch:
    """One example of a batch, without its padding."""
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


@pytest.mark.parametrize("learning", [False, True])  # in use, contexts are folded into what reads them
def test_steps_are_forward(model, batch, learning):
    with torch.set_grad_enabled(learning):
        decoded, inputs, memory = teacher_forced(model, batch)
        steps = stepped(model, inputs, memory)
    same(torch.stack([step.features for step in steps], 1), decoded.features)
    assert all((step.attention is None) == (decoded.attention is None) for step in steps)
    if decoded.attention is None:
        return
    for t, step in enumerate(steps):
        wide = step.attention.shape[1]  # on a past, it grows
        same(step.attention, decoded.attention[:, t, :wide])
        assert not decoded.attention[:, t, wide:].any()


def test_gradients_of_steps_are_those_of_forward(model, batch):
    """A whole target has gradients of its own making; those of single steps are PyTorch's."""
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
def test_weights_are_a_choice_among_what_is_real(combination, model, batch):
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
        first = 0.0 if not combination.row["current"] else 1.0
        same(sums, torch.ones_like(sums).index_fill(1, torch.tensor(0), first))
        same(decoded.attention.triu(1 if first else 0), torch.zeros_like(decoded.attention))
        return
    same(sums, torch.ones_like(sums))
    assert not decoded.attention[~memory.mask[:, None].expand(-1, T, -1)].any()


def test_an_example_alone_is_what_it_is_in_a_batch(model, batch):
    parameters = list(model.parameters())

    def judged(one: Batch):
        loss = model.loss(one)
        given = torch.autograd.grad(loss.total, parameters, allow_unused=True)
        return loss, [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, given, strict=True)]

    together, gradients = judged(batch)
    decoded, _, _ = teacher_forced(model, batch)
    losses, sums = [], [torch.zeros_like(p) for p in parameters]
    for row in range(len(batch.target.values)):
        one = alone(batch, row)
        loss, gradient = judged(one)
        losses.append(loss)
        sums = [s + g for s, g in zip(sums, gradient, strict=True)]
        own, _, _ = teacher_forced(model, one)
        T = one.target.mask.shape[1]
        same(own.features[0], decoded.features[row, :T])
        if own.attention is not None:
            S = own.attention.shape[-1]
            same(own.attention[0], decoded.attention[row, :T, :S])
    same(together.total, torch.stack([loss.total for loss in losses]).sum())
    assert together.steps == sum(loss.steps for loss in losses) == batch.target.mask.sum()
    for (name, _), actual, expected in zip(model.named_parameters(), gradients, sums, strict=True):
        same(actual, expected, msg=lambda m, name=name: f"gradient of {name}: {m}")


@torch.no_grad()
def test_selected_rows_step_as_they_would_have(model, batch):
    _, inputs, memory = teacher_forced(model, batch)
    rows = torch.tensor([2, 0, 0, 1])
    for t in (0, 2):
        state = stepped(model, inputs[:, :t], memory)[-1].state if t else model.initial_state(memory)
        last = inputs[:, t]
        chosen = model.step(last[rows], state.select(rows), memory.select(rows))
        same_step(chosen, model.step(last, state, memory), rows)


@torch.no_grad()
def test_a_selected_memory_starts_as_it_would_have(model, batch):
    memory = model.encode(batch)
    rows = torch.tensor([1, 2, 1])
    start, chosen = model.initial_state(memory).select(rows), model.initial_state(memory.select(rows))
    assert start.keys() == chosen.keys()
    for name, tensor in start.items():
        same(chosen[name], tensor)


@torch.no_grad()
def test_beams_share_the_memory_of_their_sentence(model, batch):
    K, B = 3, len(batch.target.values)
    memory = model.encode(batch)
    spread = torch.arange(B).repeat_interleave(K)
    copied = memory.select(spread)
    shared = state = model.initial_state(memory).select(spread)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        last = torch.randint(3, 7, (B * K,), generator=generator)
        on_shared, on_copies = model.step(last, shared, memory), model.step(last, state, copied)
        same_step(on_shared, on_copies)
        survivors = (torch.randint(0, K, (B, K), generator=generator) + torch.arange(0, B * K, K)[:, None]).flatten()
        shared, state = on_shared.state.select(survivors), on_copies.state.select(survivors)


@torch.no_grad()
def test_a_step_changes_no_state_it_was_given(model, batch):
    memory = model.encode(batch)
    state = stepped(model, batch.target.values[:, :1], memory)[-1].state
    before = {name: tensor.clone() for name, tensor in state.items()}
    model.step(batch.target.values[:, 1], state, memory)
    assert state.keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.items())


def tensors_kept(model) -> dict[int, str]:
    """Every tensor that a module holds beside its parameters, in whatever container."""
    found: dict[int, str] = {}

    def look(value, place: str) -> None:
        if isinstance(value, torch.Tensor):
            found[id(value)] = place
        elif isinstance(value, dict):
            for key, inner in value.items():
                look(inner, f"{place}[{key!r}]")
        elif isinstance(value, list | tuple | set):
            for n, inner in enumerate(value):
                look(inner, f"{place}[{n}]")

    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in ("_parameters", "_modules"):
                look(value, f"{path}.{name}")
    return found


def test_a_call_leaves_nothing_behind(combination):
    """What a module kept of a call, another thread would meet."""
    model = combination.build()
    before = tensors_kept(model)
    given = make_batch(model)
    model.loss(given).total.backward()
    with torch.no_grad():
        _, inputs, memory = teacher_forced(model, given)
        stepped(model, inputs, memory)
    assert {place for tensor, place in tensors_kept(model).items() if tensor not in before} == set()


def test_two_threads_get_what_one_gets(model):
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


@pytest.mark.parametrize("way", ["file", "plain tensors"])
@torch.no_grad()
def test_weights_go_into_a_fresh_model(combination, model, batch, way):
    if way == "file":
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        weights = torch.load(file, weights_only=True)
    else:
        weights = {name: torch.from_numpy(tensor.numpy().copy()) for name, tensor in model.state_dict().items()}
    fresh = combination.build(seed=1)
    expected, inputs, memory = teacher_forced(model, batch)
    logits = model.output.logits(expected.features)
    assert not torch.allclose(fresh.output.logits(teacher_forced(fresh, batch)[0].features), logits)
    fresh.load_state_dict(weights)
    decoded, _, own = teacher_forced(fresh, batch)
    same(decoded.features, expected.features)
    same(fresh.output.logits(decoded.features), logits)
    same_step(stepped(fresh, inputs, own)[-1], stepped(model, inputs, memory)[-1])


def test_it_runs_on_another_device(combination):
    """On ``meta`` there are shapes and no numbers: a tensor made on the CPU on the way would not fit in."""
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

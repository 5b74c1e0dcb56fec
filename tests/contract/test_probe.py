"""Probes: a probe sees all activations, and observing them has no side effects."""

import re

import pytest
import torch

from seqloom import parts
from seqloom.batch import BOS, Batch, shift
from seqloom.decode.greedy import Greedy
from tests.contract.runs import LENGTHS, rows_of, same, stepped, teacher_forced

SOURCE_STEPS, TARGET_STEPS = max(s for s, _ in LENGTHS), max(t for _, t in LENGTHS) + 1
SEARCH_STEPS = 4
"""The steps of a search for three tokens, including that of EOS."""


class Recorder:
    """A probe that records every tensor and returns it unchanged."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, torch.Tensor]] = []

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        self.recorded.append((name, tensor))
        return tensor

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.recorded]


def record(model, batch) -> Recorder:
    recorder = Recorder()
    memory = model.encode(batch, probe=recorder)
    inputs = shift(model.output.start(memory), batch.target)
    model(inputs, memory, attention=True, probe=recorder)
    return recorder


class Intervention(Recorder):
    """A probe that changes all activations of one step of the decoder."""

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        super().__call__(name, tensor)
        return tensor.flip(-1) * 0.7 + 0.1 if name.startswith("decoder") and name.endswith("[1]") else tensor


def search_and_forward(model, probe_type) -> tuple[list[Recorder], list[torch.Tensor]]:
    """A greedy search for one sentence, and ``forward`` on its hypothesis: the probes, and the log-probabilities."""
    sources = rows_of(torch.Generator().manual_seed(1), [4]) if hasattr(model, "encoder") else None
    batch = Batch.from_lists(None if sources else [[]], sources)
    searching, forward = probe_type(), probe_type()
    ((hypothesis,),) = Greedy(min_length=3, max_length=3)(model, batch, probe=searching)
    memory = model.encode(batch, probe=forward)
    decoded = model(torch.tensor([[BOS, *hypothesis.tokens]]), memory, attention=True, probe=forward)
    log_probs = model.output.log_probs(decoded.as_rows(0, 3), memory)[range(3), hypothesis.tokens]
    return [searching, forward], [torch.tensor(hypothesis.token_log_probs[:3], dtype=log_probs.dtype), log_probs]


@torch.no_grad()
@pytest.mark.parametrize("probe_type", [Recorder, pytest.param(Intervention, marks=pytest.mark.slow)])
def test_forward_and_search_have_the_same_activations_under_the_same_names(model, probe_type):
    """Also if a probe changes one step: the effects on later steps are the same in both."""
    probes, log_probs = search_and_forward(model, probe_type)
    searching, forward = ({n: x for n, x in probe.recorded if n.startswith("decoder")} for probe in probes)
    assert searching.keys() == forward.keys()
    assert {name[name.index("[") :] for name in searching} == {f"[{t}]" for t in range(SEARCH_STEPS)}
    for name, tensor in searching.items():
        same(forward[name], tensor)
    same(*log_probs)


@torch.no_grad()
def test_intervention_has_an_effect(model):
    """Otherwise the previous test would compare nothing."""
    log_probs = [search_and_forward(model, probe_type)[1][0] for probe_type in (Recorder, Intervention)]
    assert not torch.equal(*log_probs)


@torch.no_grad()
def test_recording_does_not_change_results(model, batch):
    recorder = Recorder()
    decoded, inputs, memory = teacher_forced(model, batch)
    probed_memory = model.encode(batch, probe=recorder)
    assert probed_memory.keys() == memory.keys()
    for name, tensor in probed_memory.items():
        same(tensor, memory[name])
    probed = model(inputs, memory, attention=True, probe=recorder)
    same(probed.features, decoded.features)
    if decoded.attention is not None:
        same(probed.attention, decoded.attention)
    step = stepped(model, inputs, memory)[0]
    same(model.step(inputs[:, 0], model.initial_state(memory), memory, probe=recorder).features, step.features)
    same(model.loss(batch, probe=recorder).total, model.loss(batch).total)


@torch.no_grad()
def test_names_are_unique(model, batch):
    names = record(model, batch).names
    assert names
    assert sorted(names) == sorted(set(names))


@torch.no_grad()
def test_names_are_paths_with_the_step_in_brackets(model, batch):
    """Such as encoder.0.backward.forget[3]; an encoder that processes all steps at once has no step numbers."""
    for name in record(model, batch).names:
        assert re.fullmatch(r"encoder(\.\w+)+(\[\d+\])?|decoder(\.\w+)+\[\d+\]", name), name


@torch.no_grad()
def test_attention_weights_are_recorded(combination, model, batch):
    recorded = [name for name in record(model, batch).names if name.split(".")[-1].split("[")[0] == "attention"]
    in_decoder = [name for name in recorded if name.startswith("decoder")]
    assert bool(in_decoder) == combination.attends


@torch.no_grad()
def test_recorded_attention_weights_are_those_returned(combination, model, batch):
    if "score" not in combination.row or not combination.attends:
        pytest.skip("heads are averaged" if combination.attends else "no attention")
    recorder = Recorder()
    decoded, inputs, _ = teacher_forced(model, batch, probe=recorder)
    steps = [tensor for name, tensor in recorder.recorded if "attention" in name]
    assert len(steps) == inputs.shape[1]
    weights = torch.cat([torch.nn.functional.pad(w, (0, decoded.attention.shape[2] - w.shape[2])) for w in steps], 1)
    same(weights, decoded.attention)


@torch.no_grad()
def test_gates_of_every_cell_are_recorded_at_every_step(model, batch):
    names = record(model, batch).names
    for side, steps in (("encoder", SOURCE_STEPS), ("decoder", TARGET_STEPS)):
        cells = [m for m in getattr(model, side, torch.nn.Module()).modules() if type(m) in parts("cell").values()]
        expected = [{*cell.blocks, *cell.state_names} for cell in cells]
        gates = [
            n for n in names if n.startswith(f"{side}.") and n.split(".")[-1].split("[")[0] in set().union(*expected)
        ]
        assert len(gates) == sum(map(len, expected)) * steps


@torch.no_grad()
def test_states_have_the_same_names_in_every_wiring(combination, model, batch):
    """decoder.0.h[2] exists whether the steps run in parallel or not."""
    if "cell" not in combination.row:
        pytest.skip("no cells")
    names = record(model, batch).names
    for n, cell in enumerate(model.decoder.cells):
        for state_name in cell.state_names:
            assert all(f"decoder.{n}.{state_name}[{t}]" in names for t in range(TARGET_STEPS))

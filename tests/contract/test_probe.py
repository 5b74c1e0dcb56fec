"""A probe hears all there is to hear, and changes nothing by listening."""

import re

import pytest
import torch

from seqloom import parts
from seqloom.batch import shift
from tests.contract.runs import LENGTHS, same, stepped, teacher_forced

GATES = {"input", "forget", "output", "update", "reset", "candidate", "c", "h"}
SOURCE_STEPS, TARGET_STEPS = max(s for s, _ in LENGTHS), max(t for _, t in LENGTHS) + 1


class Recorder:
    """A probe that remembers, and gives back what it was given."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, torch.Tensor]] = []

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        self.heard.append((name, tensor))
        return tensor

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.heard]


def recorded(model, batch) -> Recorder:
    recorder = Recorder()
    memory = model.encode(batch, probe=recorder)
    inputs = shift(model.output.start(memory), batch.target)
    model(inputs, memory, attention=True, probe=recorder)
    return recorder


@torch.no_grad()
def test_listening_changes_nothing(model, batch):
    recorder = Recorder()
    decoded, inputs, memory = teacher_forced(model, batch)
    heard = model.encode(batch, probe=recorder)
    assert heard.keys() == memory.keys()
    for name, tensor in heard.items():
        same(tensor, memory[name])
    listened = model(inputs, memory, attention=True, probe=recorder)
    same(listened.features, decoded.features)
    if decoded.attention is not None:
        same(listened.attention, decoded.attention)
    step = stepped(model, inputs, memory)[0]
    same(model.step(inputs[:, 0], model.initial_state(memory), memory, probe=recorder).features, step.features)
    same(model.loss(batch, probe=recorder).total, model.loss(batch).total)


@torch.no_grad()
def test_every_name_is_heard_once(model, batch):
    names = recorded(model, batch).names
    assert names
    assert sorted(names) == sorted(set(names))


@torch.no_grad()
def test_names_are_paths_with_the_step_in_brackets(model, batch):
    """As in encoder.0.backward.forget[3]."""
    for name in recorded(model, batch).names:
        assert re.fullmatch(r"(encoder|decoder)(\.\w+)+(\[\d+\])?", name), name


@torch.no_grad()
def test_attention_is_heard(combination, model, batch):
    heard = [name for name in recorded(model, batch).names if name.split(".")[-1].split("[")[0] == "attention"]
    in_decoder = [name for name in heard if name.startswith("decoder")]
    assert bool(in_decoder) == combination.attends


@torch.no_grad()
def test_the_weights_heard_are_the_weights_given(combination, model, batch):
    if "score" not in combination.row or not combination.attends:
        pytest.skip("heads are averaged" if combination.attends else "nothing attends")
    recorder = Recorder()
    decoded, inputs, _ = teacher_forced(model, batch, probe=recorder)
    heard = [tensor for name, tensor in recorder.heard if "attention" in name]
    assert len(heard) in (1, inputs.shape[1])
    at_once = torch.cat([torch.nn.functional.pad(w, (0, decoded.attention.shape[2] - w.shape[2])) for w in heard], 1)
    same(at_once, decoded.attention)


@torch.no_grad()
def test_the_gates_of_every_cell_are_heard_at_every_step(model, batch):
    names = recorded(model, batch).names
    for side, steps in (("encoder", SOURCE_STEPS), ("decoder", TARGET_STEPS)):
        cells = [m for m in getattr(model, side, torch.nn.Module()).modules() if type(m) in parts("cell").values()]
        gates = [n for n in names if n.startswith(f"{side}.") and n.split(".")[-1].split("[")[0] in GATES]
        assert len(gates) == sum(len({*cell.blocks, *cell.parts}) for cell in cells) * steps


@torch.no_grad()
def test_a_cell_is_named_alike_in_every_wiring(combination, model, batch):
    """Whoever asks for decoder.0.h[2] gets it, whether the steps run in parallel or not."""
    if "cell" not in combination.row:
        pytest.skip("no cells")
    names = recorded(model, batch).names
    for n, cell in enumerate(model.decoder.cells):
        for part in cell.parts:
            assert all(f"decoder.{n}.{part}[{t}]" in names for t in range(TARGET_STEPS))

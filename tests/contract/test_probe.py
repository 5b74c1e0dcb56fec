"""A probe hears all there is to hear, and changes nothing by listening."""

import re

import pytest
import torch

from seqloom import parts
from seqloom.batch import START, Batch, shift
from seqloom.decode.greedy import Greedy
from tests.contract.runs import LENGTHS, rows_of, same, stepped, teacher_forced

SOURCE_STEPS, TARGET_STEPS = max(s for s, _ in LENGTHS), max(t for _, t in LENGTHS) + 1


SEARCHED = 4
"""So many steps has a search for three tokens, with that of END."""


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


class Intervening(Recorder):
    """A probe that changes all there is at one step of the decoder."""

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        super().__call__(name, tensor)
        return tensor.flip(-1) * 0.7 + 0.1 if name.startswith("decoder") and name.endswith("[1]") else tensor


def searched_and_forced(model, probe_type) -> tuple[list[Recorder], list[torch.Tensor]]:
    """A greedy search for one sentence, and ``forward`` on what it found: what was heard, and log-probabilities."""
    sources = rows_of(torch.Generator().manual_seed(1), [4]) if hasattr(model, "encoder") else None
    batch = Batch.of(None if sources else [[]], sources)
    searching, forcing = probe_type(), probe_type()
    ((found,),) = Greedy(min_length=3, max_length=3)(model, batch, probe=searching)
    memory = model.encode(batch, probe=forcing)
    decoded = model(torch.tensor([[START, *found.tokens]]), memory, attention=True, probe=forcing)
    forced = model.output.log_probs(decoded.as_rows(0, 3), memory)[range(3), found.tokens]
    return [searching, forcing], [torch.tensor(found.token_log_probs[:3], dtype=forced.dtype), forced]


@torch.no_grad()
@pytest.mark.parametrize("probe_type", [Recorder, Intervening])
def test_forward_and_search_show_the_same_by_the_same_names(model, probe_type):
    """Also where a probe changes one step: what follows from it is the same in both."""
    heard, log_probs = searched_and_forced(model, probe_type)
    searching, forcing = ({n: x for n, x in one.heard if n.startswith("decoder")} for one in heard)
    assert searching.keys() == forcing.keys()
    assert {name[name.index("[") :] for name in searching} == {f"[{t}]" for t in range(SEARCHED)}
    for name, tensor in searching.items():
        same(forcing[name], tensor)
    same(*log_probs)


@torch.no_grad()
def test_an_intervention_has_an_effect(model):
    """Else the test before this one would compare nothing."""
    log_probs = [searched_and_forced(model, probe_type)[1][0] for probe_type in (Recorder, Intervening)]
    assert not torch.equal(*log_probs)


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
    """As in encoder.0.backward.forget[3]; only an encoder that has no steps has none to name."""
    for name in recorded(model, batch).names:
        assert re.fullmatch(r"encoder(\.\w+)+(\[\d+\])?|decoder(\.\w+)+\[\d+\]", name), name


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
    assert len(heard) == inputs.shape[1]
    at_once = torch.cat([torch.nn.functional.pad(w, (0, decoded.attention.shape[2] - w.shape[2])) for w in heard], 1)
    same(at_once, decoded.attention)


@torch.no_grad()
def test_the_gates_of_every_cell_are_heard_at_every_step(model, batch):
    names = recorded(model, batch).names
    for side, steps in (("encoder", SOURCE_STEPS), ("decoder", TARGET_STEPS)):
        cells = [m for m in getattr(model, side, torch.nn.Module()).modules() if type(m) in parts("cell").values()]
        shown = [{*cell.blocks, *cell.parts} for cell in cells]
        gates = [
            n for n in names if n.startswith(f"{side}.") and n.split(".")[-1].split("[")[0] in set().union(*shown)
        ]
        assert len(gates) == sum(map(len, shown)) * steps


@torch.no_grad()
def test_a_cell_is_named_alike_in_every_wiring(combination, model, batch):
    """Whoever asks for decoder.0.h[2] gets it, whether the steps run in parallel or not."""
    if "cell" not in combination.row:
        pytest.skip("no cells")
    names = recorded(model, batch).names
    for n, cell in enumerate(model.decoder.cells):
        for part in cell.parts:
            assert all(f"decoder.{n}.{part}[{t}]" in names for t in range(TARGET_STEPS))

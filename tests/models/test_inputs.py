"""Further inputs: where they join, that padding does not matter, and what is refused."""

import pytest
import torch
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import Padded, pad, shift
from seqloom.errors import InputError, OptionError
from tests.contract.runs import randomised, stepped

V, SIZE = 9, 4
SOURCES, TARGETS = [[5, 4, 3], [8, 7]], [[3, 4, 5], [7]]
TAGS = {"memory": [[3], [4, 5, 6, 7]], "source": [[3, 4, 5], [6, 7]], "target": [[3, 4, 5, 6], [7, 8]]}
PRESETS = ["luong", "bahdanau", "transformer"]
every_join = pytest.mark.parametrize("join", TAGS)


def built(preset: str, join: str, **options):
    settings = {"inputs": {"tags": {"embedder": {"name": "tokens", "size": 3}, "joins": join, **options}}}
    sizes = {"source": V, "target": V, "tags": V}
    return randomised(build_model(preset, sizes=sizes, size=SIZE, settings=settings).double().eval(), 1)


def batch_of(tags, sources=SOURCES, targets=TARGETS) -> Batch:
    return Batch({**Batch.of(targets, sources).fields, "tags": pad(tags)})


def run(model, batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory, attention=True), inputs, memory


@torch.no_grad()
@every_join
@pytest.mark.parametrize("preset", PRESETS)
def test_steps_are_forward_also_for_beams(preset, join):
    model = built(preset, join)
    decoded, inputs, memory = run(model, batch_of(TAGS[join]))
    rows = torch.tensor([0, 0, 1, 1])
    steps = stepped(model, inputs, memory)
    beams = stepped(model, inputs[rows], memory, model.initial_state(memory).select(rows))
    assert_close(torch.stack([s.features for s in steps], 1), decoded.features)
    assert_close(torch.stack([s.features for s in beams], 1), decoded.features[rows])


@torch.no_grad()
@every_join
@pytest.mark.parametrize("preset", PRESETS)
def test_an_example_alone_is_what_it_is_in_a_batch(preset, join):
    model = built(preset, join)
    together = model.loss(batch_of(TAGS[join])).total
    alone = [
        model.loss(batch_of([tags], [source], [target])).total
        for tags, source, target in zip(TAGS[join], SOURCES, TARGETS, strict=True)
    ]
    assert_close(together, sum(alone))


@torch.no_grad()
@pytest.mark.parametrize("join", ["source", "target"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_single_step_is_repeated(preset, join):
    model = built(preset, join)
    once, _, _ = run(model, batch_of([[5], [6]]))
    steps = 3 if join == "source" else 4
    often, _, _ = run(model, batch_of([[5] * steps, [6] * steps]))
    assert_close(once.features, often.features)


@torch.no_grad()
@pytest.mark.parametrize("preset", PRESETS)
def test_what_joins_the_memory_is_attended_to(preset):
    model = built(preset, "memory")
    decoded, _, memory = run(model, batch_of(TAGS["memory"]))
    assert memory["values"].shape[1] == decoded.attention.shape[2] == 3 + 4
    assert memory.mask.tolist() == [[True] * 4 + [False] * 3, [True, True, False] + [True] * 4]
    assert_close(decoded.attention.sum(-1), torch.ones_like(decoded.attention[..., 0]))
    assert not decoded.attention[~memory.mask[:, None].expand_as(decoded.attention)].any()
    own = model.inputs.linear["tags"](model.inputs.embedders["tags"](pad([[3]])).values)
    assert_close(memory["values"][0, 3:4], own[0])


@torch.no_grad()
def test_what_joins_the_source_is_added_to_its_vectors():
    model, plain = built("luong", "source"), batch_of(TAGS["source"])
    embedded = model.source(plain.source)
    joined = model.inputs.to_source(embedded, plain)
    added = model.inputs.linear["tags"](model.inputs.embedders["tags"](plain["tags"]).values)
    assert_close(joined.values, embedded.values + added)
    assert torch.equal(joined.mask, plain.source.mask)


@torch.no_grad()
@pytest.mark.parametrize("preset", [*PRESETS, "attention-lm"])
def test_what_joins_the_target_reaches_its_step_and_ends(preset):
    model = built(preset, "target")
    sources = None if preset == "attention-lm" else SOURCES
    given = Batch({**Batch.of([[3, 4, 5], [7, 8, 3]], sources).fields, "tags": pad([[3, 4, 5, 6], [7, 8]])})
    before, inputs, memory = run(model, given)
    fed = model.inputs.beside(model.output.feed(inputs), model.initial_state(memory), memory)
    assert fed[0, :, -3:].any(1).all()
    assert not fed[1, 2:, -3:].any(), "an input that has ended is zero"
    tags = given["tags"].values.clone()
    tags[0, 2] = 8
    after, _, _ = run(model, Batch({**given.fields, "tags": Padded(tags, given["tags"].mask)}))
    changed = (before.features != after.features).any(-1)
    assert changed[0].tolist()[:3] == [False, False, True]
    assert not changed[1].any()


@torch.no_grad()
@pytest.mark.parametrize("preset", ["luong", "transformer"])
def test_a_target_can_be_gone_through_in_two_pieces(preset):
    model = built(preset, "target")
    whole, inputs, memory = run(model, batch_of(TAGS["target"]))
    first = model(inputs[:, :2], memory)
    rest = model(inputs[:, 2:], memory, first.state)
    assert_close(torch.cat((first.features, rest.features), 1), whole.features)


@every_join
def test_it_learns(join):
    model = built("luong", join)
    model.loss(batch_of(TAGS[join])).total.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.inputs.parameters())


@pytest.mark.parametrize(
    ("preset", "inputs", "says"),
    [
        ("luong", {"tags": {"joins": "nowhere"}}, "joins: memory, source or target"),
        ("luong", {"tags": {"embedder": "tokens"}}, "joins: memory, source or target"),
        ("luong", {"tags": {"joins": "memory", "size": 3}}, "joins: memory, source or target"),
        ("luong", {"other": {"joins": "memory"}}, "the data has no field 'other'"),
        ("attention-lm", {"tags": {"joins": "memory"}}, "a language model has none"),
        ("attention-lm", {"tags": {"joins": "source"}}, "a language model has none"),
    ],
)
def test_what_does_not_fit_is_refused(preset, inputs, says):
    with pytest.raises(OptionError, match=says):
        build_model(preset, sizes={"source": V, "target": V, "tags": V}, size=SIZE, settings={"inputs": inputs})


def test_a_batch_must_have_the_input_with_steps_that_fit():
    with pytest.raises(InputError, match="no field 'tags'"):
        built("luong", "memory").encode(Batch.of(TARGETS, SOURCES))
    with pytest.raises(InputError, match="has 2 steps and the source 3"):
        built("luong", "source").encode(batch_of([[3, 4], [5]]))

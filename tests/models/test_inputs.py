"""Further inputs: what they join, independence of padding, and invalid descriptions."""

import pytest
import torch
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import Padded, pad, shift
from seqloom.errors import ConfigError, InputError
from tests.contract.runs import randomized, stepped

V, SIZE = 9, 4
SOURCES, TARGETS = [[5, 4, 3], [8, 7]], [[3, 4, 5], [7]]
TAGS = {"memory": [[3], [4, 5, 6, 7]], "source": [[3, 4, 5], [6, 7]], "target": [[3, 4, 5, 6], [7, 8]]}
PRESETS = ["luong", "bahdanau", "transformer"]
SMALL = {
    "luong": {"encoder.layers": 2, "decoder.layers": 2},
    "transformer": {f"{part}.{option}": 2 for part in ("encoder", "decoder") for option in ("layers", "heads")},
}
every_join = pytest.mark.parametrize("join", TAGS)


def built(preset: str, join: str):
    inputs = {"tags": {"embedder": {"name": "tokens", "embedding_size": 3}, "joins": join}}
    sizes = {"source": V, "target": V, "tags": V}
    overrides = SMALL.get(preset, {}) | {"inputs": inputs}
    return randomized(build_model(preset, sizes=sizes, hidden_size=SIZE, overrides=overrides).double().eval(), 1)


def batch_of(tags, sources=SOURCES, targets=TARGETS) -> Batch:
    return Batch({**Batch.from_lists(targets, sources).fields, "tags": pad(tags)})


def run(model, batch):
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    return model(inputs, memory, attention=True), inputs, memory


@torch.no_grad()
@every_join
@pytest.mark.parametrize("preset", PRESETS)
def test_step_matches_forward_also_for_beams(preset, join):
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
def test_loss_of_a_batch_is_the_sum_of_its_examples(preset, join):
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
def test_input_of_a_single_step_is_repeated(preset, join):
    model = built(preset, join)
    single, _, _ = run(model, batch_of([[5], [6]]))
    steps = 3 if join == "source" else 4
    repeated, _, _ = run(model, batch_of([[5] * steps, [6] * steps]))
    assert_close(single.features, repeated.features)


@torch.no_grad()
@pytest.mark.parametrize("preset", PRESETS)
def test_input_that_joins_the_memory_is_attended_to(preset):
    model = built(preset, "memory")
    decoded, _, memory = run(model, batch_of(TAGS["memory"]))
    assert memory["values"].shape[1] == decoded.attention.shape[2] == 3 + 4
    assert memory.mask.tolist() == [[True] * 4 + [False] * 3, [True, True, False] + [True] * 4]
    assert_close(decoded.attention.sum(-1), torch.ones_like(decoded.attention[..., 0]))
    assert not decoded.attention[~memory.mask[:, None].expand_as(decoded.attention)].any()
    tag = model.inputs.linear["tags"](model.inputs.embedders["tags"](pad([[3]])).values)
    assert_close(memory["values"][0, 3:4], tag[0])


@torch.no_grad()
def test_input_that_joins_the_source_is_added_to_its_embeddings():
    model, batch = built("luong", "source"), batch_of(TAGS["source"])
    embedded = model.source_embedder(batch.source)
    joined = model.inputs.join_source(embedded, batch)
    added = model.inputs.linear["tags"](model.inputs.embedders["tags"](batch["tags"]).values)
    assert_close(joined.values, embedded.values + added)
    assert torch.equal(joined.mask, batch.source.mask)


@torch.no_grad()
@pytest.mark.parametrize("preset", [*PRESETS, "attention-lm"])
def test_input_that_joins_the_target_reaches_its_step_and_is_zero_after_its_end(preset):
    model = built(preset, "target")
    sources = None if preset == "attention-lm" else SOURCES
    batch = Batch({**Batch.from_lists([[3, 4, 5], [7, 8, 3]], sources).fields, "tags": pad([[3, 4, 5, 6], [7, 8]])})
    before, inputs, memory = run(model, batch)
    fed = model.inputs.join_target(model.output.feed(inputs), model.initial_state(memory), memory)
    assert fed[0, :, -3:].any(1).all()
    assert not fed[1, 2:, -3:].any(), "zero after the end of the input"
    tags = batch["tags"].values.clone()
    tags[0, 2] = 8
    after, _, _ = run(model, Batch({**batch.fields, "tags": Padded(tags, batch["tags"].mask)}))
    changed = (before.features != after.features).any(-1)
    assert changed[0].tolist()[:3] == [False, False, True]
    assert not changed[1].any()


@torch.no_grad()
@pytest.mark.parametrize("preset", ["luong", "transformer"])
def test_forward_continues_from_a_state(preset):
    model = built(preset, "target")
    whole, inputs, memory = run(model, batch_of(TAGS["target"]))
    first = model(inputs[:, :2], memory)
    rest = model(inputs[:, 2:], memory, first.state)
    assert_close(torch.cat((first.features, rest.features), 1), whole.features)


@every_join
def test_parameters_get_gradients(join):
    model = built("luong", join)
    model.loss(batch_of(TAGS[join])).total.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.inputs.parameters())


@pytest.mark.parametrize(
    ("preset", "inputs", "message"),
    [
        ("luong", {"tags": {"joins": "nowhere"}}, "joins: memory, source or target"),
        ("luong", {"tags": {"embedder": "tokens"}}, "joins: memory, source or target"),
        ("luong", {"tags": {"joins": "memory", "size": 3}}, "joins: memory, source or target"),
        ("luong", {"other": {"joins": "memory"}}, "the data has no field 'other'"),
        ("attention-lm", {"tags": {"joins": "memory"}}, "a language model has none"),
        ("attention-lm", {"tags": {"joins": "source"}}, "a language model has none"),
    ],
)
def test_invalid_inputs_are_refused(preset, inputs, message):
    with pytest.raises(ConfigError, match=message):
        build_model(
            preset, sizes={"source": V, "target": V, "tags": V}, hidden_size=SIZE, overrides={"inputs": inputs}
        )


def test_batch_without_the_input_or_with_a_wrong_number_of_steps_is_refused():
    with pytest.raises(InputError, match="no field 'tags'"):
        built("luong", "memory").encode(Batch.from_lists(TARGETS, SOURCES))
    with pytest.raises(InputError, match="has 2 steps and the source 3"):
        built("luong", "source").encode(batch_of([[3, 4], [5]]))

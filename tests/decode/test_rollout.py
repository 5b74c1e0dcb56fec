"""Rollout: what a model writes by itself is what it would have written after its own values."""

import pytest
import torch

from seqloom import build_model
from seqloom.batch import Batch, Padded, shift
from seqloom.decode.lengths import Lengths, Limits
from seqloom.decode.rollout import rollout, rolls_out
from seqloom.errors import OptionError, SeqloomError
from seqloom.registry import build

OUTSIDE = ("data/vectors.py",)
pytestmark = pytest.mark.usefixtures("outside")
NONE = Lengths(0, None, 0.0, None)


def model_of(preset: str, *, ends: bool, context: bool = False):
    torch.manual_seed(1)
    inputs = {"context": {"embedder": {"name": "vectors", "size": 4}, "joins": "target"}} if context else None
    settings = {"output": {"name": "squared_error", "ends": ends}, "inputs": inputs, "decoder.dropout": 0.0}
    return build_model(preset, sizes={"source": 9, "target": 3, "context": 2}, size=16, settings=settings).eval()


def batch_of(sources: list[list[int]], context: list[int] | None = None) -> Batch:
    fields = dict(Batch.of(None, sources).fields)
    if context is not None:
        mask = torch.arange(max(context)) < torch.tensor(context)[:, None]
        values = torch.randn(*mask.shape, 2, generator=torch.Generator().manual_seed(1))
        fields["context"] = Padded(values.masked_fill(~mask[..., None], 0), mask)
    return Batch(fields)


@pytest.mark.parametrize("preset", ["bahdanau", "luong", "transformer"])
@pytest.mark.parametrize("context", [False, True])
def test_its_values_are_those_of_teacher_forcing_on_them(preset, context):
    model = model_of(preset, ends=False, context=context)
    batch = batch_of([[4, 5, 6], [7]], [5, 3] if context else None)
    found = rollout(model, batch, lengths=NONE if context else Lengths(0, 4, 0.0, None))
    assert [len(one.tokens) for (one,) in found] == ([5, 3] if context else [4, 4])
    for row, (one,) in enumerate(found):
        alone = Batch({name: Padded(f.values[[row]], f.mask[[row]]) for name, f in batch.fields.items()})
        alone = Batch(
            {name: Padded(f.values[:, : f.lengths[0]], f.mask[:, : f.lengths[0]]) for name, f in alone.fields.items()}
        )
        with torch.no_grad():
            memory = model.encode(alone)
            values = torch.tensor([one.tokens])
            target = Padded(values, torch.ones(values.shape[:2], dtype=torch.bool))
            decoded = model(shift(model.output.start(memory), target), memory)
            torch.testing.assert_close(model.output.linear(decoded.features), values)


def test_it_ends_where_the_output_says_so_and_never_later_than_it_may():
    model, batch = model_of("bahdanau", ends=True), batch_of([[4, 5], [6], [7, 8]])
    steps = torch.tensor([2, 9, 4])  # when each row is to end
    count = 0

    def ended(value):
        nonlocal count
        is_start, count = count == 0, count + 1
        return torch.zeros(3, dtype=torch.bool) if is_start else steps == count - 1

    model.output.ended = ended
    found = rollout(model, batch, lengths=Lengths(0, 6, 0.0, None))
    assert [(len(one.tokens), one.finished) for (one,) in found] == [(2, True), (6, False), (4, True)]
    count = 0
    found = rollout(model, batch, lengths=Lengths(3, 6, 0.0, None))
    assert [(len(one.tokens), one.finished) for (one,) in found] == [(6, False), (6, False), (4, True)]


def test_lengths_in_the_training_data_limit_it():
    model = model_of("bahdanau", ends=False)
    limits = Limits(source=3, target=6, ratio=2.0)
    sources = [[4, 5, 6], [7]]
    found = rollout(model, batch_of(sources), lengths=NONE, limits=limits)
    assert [len(one.tokens) for (one,) in found] == limits.most(torch.tensor([3, 1])).tolist()


def test_drawn_values_depend_on_the_generator_alone():
    model, batch = model_of("luong", ends=False), batch_of([[4, 5]])
    lengths = Lengths(0, 3, 0.0, None)

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        return rollout(model, batch, lengths=lengths, temperature=1.0, generator=generator)[0][0].tokens

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1) != rollout(model, batch, lengths=lengths)[0][0].tokens


def test_tokens_are_searched_and_other_values_are_not():
    tokens, vectors = build_model("bahdanau", sizes={"source": 9, "target": 9}, size=16), model_of("luong", ends=True)
    assert not rolls_out(tokens)
    assert rolls_out(vectors)
    with pytest.raises(OptionError, match="nothing to search or to score"):
        build("search", "greedy")(vectors, batch_of([[4]]))
    with pytest.raises(SeqloomError, match="training mode"):
        rollout(vectors.train(), batch_of([[4]]), lengths=NONE)

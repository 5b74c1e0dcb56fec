"""Rollout: generated values equal those under teacher forcing on the same values."""

import pytest
import torch

from seqloom import build_model
from seqloom.batch import Batch, Padded, shift
from seqloom.decode.lengths import LengthLimits, TrainingLengths
from seqloom.decode.rollout import rollout, rolls_out
from seqloom.errors import ConfigError, SeqloomError
from seqloom.registry import build

OUTSIDE = ("data/vectors.py",)
pytestmark = pytest.mark.usefixtures("outside")
NONE = LengthLimits(0, None, 0.0, None)


def model_of(preset: str, *, ends: bool, context: bool = False):
    torch.manual_seed(1)
    inputs = (
        {"context": {"embedder": {"name": "vectors", "embedding_size": 4}, "joins": "target"}} if context else None
    )
    overrides = {"output": {"name": "squared_error", "ends": ends}, "inputs": inputs, "decoder.dropout": 0.0}
    return build_model(
        preset, sizes={"source": 9, "target": 3, "context": 2}, hidden_size=16, overrides=overrides
    ).eval()


def batch_of(sources: list[list[int]], context: list[int] | None = None) -> Batch:
    fields = dict(Batch.from_lists(None, sources).fields)
    if context is not None:
        mask = torch.arange(max(context)) < torch.tensor(context)[:, None]
        values = torch.randn(*mask.shape, 2, generator=torch.Generator().manual_seed(1))
        fields["context"] = Padded(values.masked_fill(~mask[..., None], 0), mask)
    return Batch(fields)


@pytest.mark.parametrize("preset", ["bahdanau", "luong", "transformer"])
@pytest.mark.parametrize("context", [False, True])
def test_values_equal_teacher_forcing(preset, context):
    model = model_of(preset, ends=False, context=context)
    batch = batch_of([[4, 5, 6], [7]], [5, 3] if context else None)
    found = rollout(model, batch, lengths=NONE if context else LengthLimits(0, 4, 0.0, None))
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


def test_rows_end_at_the_end_signal_or_the_maximum_length():
    model, batch = model_of("bahdanau", ends=True), batch_of([[4, 5], [6], [7, 8]])
    steps = torch.tensor([2, 9, 4])  # the step at which each row ends
    count = 0

    def ended(value):
        nonlocal count
        is_start, count = count == 0, count + 1
        return torch.zeros(3, dtype=torch.bool) if is_start else steps == count - 1

    model.output.ended = ended
    found = rollout(model, batch, lengths=LengthLimits(0, 6, 0.0, None))
    assert [(len(one.tokens), one.finished) for (one,) in found] == [(2, True), (6, False), (4, True)]
    count = 0
    found = rollout(model, batch, lengths=LengthLimits(3, 6, 0.0, None))
    assert [(len(one.tokens), one.finished) for (one,) in found] == [(6, False), (6, False), (4, True)]


def test_training_lengths_limit_the_rollout():
    model = model_of("bahdanau", ends=False)
    training_lengths = TrainingLengths(source=3, target=6, ratio=2.0)
    sources = [[4, 5, 6], [7]]
    found = rollout(model, batch_of(sources), lengths=NONE, training_lengths=training_lengths)
    assert [len(one.tokens) for (one,) in found] == training_lengths.max_length(torch.tensor([3, 1])).tolist()


def test_sampled_values_depend_only_on_the_generator():
    model, batch = model_of("luong", ends=False), batch_of([[4, 5]])
    lengths = LengthLimits(0, 3, 0.0, None)

    def sample(seed):
        generator = torch.Generator().manual_seed(seed)
        return rollout(model, batch, lengths=lengths, temperature=1.0, generator=generator)[0][0].tokens

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)
    assert sample(1) != rollout(model, batch, lengths=lengths)[0][0].tokens


def test_only_tokens_are_searched():
    tokens, vectors = (
        build_model("bahdanau", sizes={"source": 9, "target": 9}, hidden_size=16),
        model_of("luong", ends=True),
    )
    assert not rolls_out(tokens)
    assert rolls_out(vectors)
    with pytest.raises(ConfigError, match="it can't be searched or scored"):
        build("search", "greedy")(vectors, batch_of([[4]]))
    with pytest.raises(SeqloomError, match="training mode"):
        rollout(vectors.train(), batch_of([[4]]), lengths=NONE)

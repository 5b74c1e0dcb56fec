"""Lexical constraints: finished hypotheses contain all required phrases, and a large beam finds all of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch, registry
from seqloom.decode import TokenConstraints
from seqloom.decode.beam import Beam
from seqloom.errors import ConfigError, SentenceError, ShapeError
from tests.decode.reference import (
    BY_HAND,
    CONTENT,
    DIVISORS,
    TableModel,
    all_hypotheses,
    batch_for,
    has,
    random_table,
    real_model,
)

TABLE = torch.tensor(BY_HAND, dtype=torch.float64)
phrases = st.lists(st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3), max_size=3)


@pytest.mark.parametrize("required", [[[4]], [[5, 5]], [[3, 4], [5]], [[4, 5], [5, 4]], [[3, 3, 4], [4]], [[3], [3]]])
@pytest.mark.parametrize("table", [TABLE, random_table(1), random_table(2, sharpness=3.0)])
@pytest.mark.parametrize("length_penalty", sorted(DIVISORS))
def test_large_beam_finds_all_hypotheses_with_required_phrases(required, table, length_penalty):
    every = all_hypotheses(table, length_penalty, 0, 4)
    expected = [h for h in every if all(has(h.tokens, phrase) for phrase in required)]
    for n_best in (2, len(every)):
        search = Beam(beam_size=len(every), n_best=n_best, length_penalty=length_penalty, max_length=4)
        (found,) = search(
            TableModel(table), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(required=[required])
        )
        found = [h for h in found if h.finished]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected[:n_best]], abs=1e-10)
        assert {tuple(h.tokens) for h in found} <= {h.tokens for h in expected}


@settings(max_examples=30, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    required=st.lists(phrases, min_size=6, max_size=6),
    sharpness=st.sampled_from([0.5, 2.0, 5.0]),
    beam_size=st.integers(1, 8),
)
def test_small_beam_meets_constraints_independently_of_the_batch(seeds, required, sharpness, beam_size):
    """Three phrases have at most nine tokens, so a finished hypothesis always exists."""
    model = TableModel(*[random_table(seed, sharpness=sharpness) for seed in seeds])
    sources = [[number, *[5] * (number % 3)] for number in range(len(seeds))]
    search, constraints = (
        Beam(beam_size=beam_size, n_best=beam_size, max_length=9),
        TokenConstraints(required=required[: len(seeds)]),
    )
    for number, found in enumerate(search(model, Batch.from_lists(None, sources), constraints=constraints)):
        assert found[0].finished or not required[number]
        for h in found:
            assert not h.finished or all(has(h.tokens, phrase) for phrase in required[number])
        own = TokenConstraints(required=[required[number]])
        (alone,) = search(model, Batch.from_lists(None, [sources[number]]), constraints=own)
        assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-10)
        if not required[number]:
            (free,) = search(model, Batch.from_lists(None, [sources[number]]))
            assert [h.tokens for h in found] == [h.tokens for h in free]


@pytest.mark.parametrize("preset", ["attention-lm", "bahdanau", "transformer"])
def test_real_models_generate_unlikely_required_phrases(preset):
    model = real_model(preset, seed=3, vocabulary=30)
    sources, required = [[3, 8, 4], [5], [7, 7]], [[[29, 28, 27], [26]], [], [[25, 25]]]
    found = Beam(beam_size=6)(
        model, batch_for(model, sources), constraints=TokenConstraints(required=required, no_repeat_ngram_size=4)
    )
    free = Beam(beam_size=6)(model, batch_for(model, sources))
    for phrases, (h,), (other,) in zip(required, found, free, strict=True):
        assert all(has(h.tokens, phrase) for phrase in phrases)
        assert h.finished or not phrases
        assert not phrases or not all(has(other.tokens, phrase) for phrase in phrases)


def test_required_phrase_is_generated_at_its_most_likely_position():
    """b is likely only after c: it is generated there, though it could be generated at once."""
    table = torch.full((6, 6), 0.001, dtype=torch.float64)
    table[1, 3], table[3, 5], table[5, 4], table[5, 2], table[4, 2] = 0.9, 0.9, 0.3, 0.6, 0.9
    (found,) = Beam(beam_size=6)(
        TableModel(table), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(required=[[[4]]])
    )
    assert found[0].tokens == [3, 5, 4]


@pytest.mark.parametrize("name", sorted(set(registry.parts("search")) - {"beam"}))
def test_other_searches_raise_error(name):
    search = registry.build("search", name)
    with pytest.raises(
        ConfigError, match=rf"search '{name}' does not support require \(lexical constraints\): use search 'beam'"
    ):
        search(TableModel(TABLE), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(required=[[[4]]]))


def test_every_search_supports_empty_required_phrases():
    for name in registry.parts("search"):
        search = registry.build("search", {"name": name, "max_length": 2})
        assert search(
            TableModel(TABLE), Batch.from_lists(None, [[0]] * 2), constraints=TokenConstraints(required=[[], []])
        )[1]


def test_invalid_required_phrases_raise_errors():
    model, batch = TableModel(TABLE), Batch.from_lists(None, [[0], [0]])
    with pytest.raises(
        SentenceError, match="sentence 1: its required phrase has 3 tokens, but the maximum length is 2"
    ):
        Beam(max_length=2)(model, batch, constraints=TokenConstraints(required=[[[4]], [[3], [3, 4, 5]]]))
    with pytest.raises(ShapeError, match="required has 1 entries for 2 sentences"):
        Beam()(model, batch, constraints=TokenConstraints(required=[[[4]]]))

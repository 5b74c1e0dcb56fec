"""Words that must be said: every finished answer has them, and with room enough none is missed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch, registry
from seqloom.decode import Masks
from seqloom.decode.beam import Beam
from seqloom.errors import OptionError, SentenceError, SizeError
from tests.decode.plain import BY_HAND, CONTENT, DIVISORS, TableModel, batch_for, drawn, every_answer, has, real_model

TABLE = torch.tensor(BY_HAND, dtype=torch.float64)
phrases = st.lists(st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3), max_size=3)


@pytest.mark.parametrize("required", [[[4]], [[5, 5]], [[3, 4], [5]], [[4, 5], [5, 4]], [[3, 3, 4], [4]], [[3], [3]]])
@pytest.mark.parametrize("table", [TABLE, drawn(1), drawn(2, sharpness=3.0)])
@pytest.mark.parametrize("normalisation", sorted(DIVISORS))
def test_with_room_for_all_it_finds_all(required, table, normalisation):
    every = every_answer(table, normalisation, 0, 4)
    expected = [answer for answer in every if all(has(answer.tokens, phrase) for phrase in required)]
    for n_best in (2, len(every)):
        search = Beam(width=len(every), n_best=n_best, normalisation=normalisation, max_length=4)
        (found,) = search(TableModel(table), Batch.of(None, [[0]]), masks=Masks(required=[required]))
        found = [h for h in found if h.finished]
        assert [h.value for h in found] == pytest.approx([answer.value for answer in expected[:n_best]], abs=1e-10)
        assert {tuple(h.tokens) for h in found} <= {answer.tokens for answer in expected}


@settings(max_examples=30, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    required=st.lists(phrases, min_size=6, max_size=6),
    sharpness=st.sampled_from([0.5, 2.0, 5.0]),
    width=st.integers(1, 8),
)
def test_a_narrow_beam_says_them_too_in_a_batch_as_alone(seeds, required, sharpness, width):
    """Nine tokens are as many as three phrases can have: so there is always an answer, and always one that ends."""
    model = TableModel(*[drawn(seed, sharpness=sharpness) for seed in seeds])
    sources = [[number, *[5] * (number % 3)] for number in range(len(seeds))]
    search, masks = Beam(width=width, n_best=width, max_length=9), Masks(required=required[: len(seeds)])
    for number, found in enumerate(search(model, Batch.of(None, sources), masks=masks)):
        assert found[0].finished or not required[number]
        for h in found:
            assert not h.finished or all(has(h.tokens, phrase) for phrase in required[number])
        own = Masks(required=[required[number]])
        (alone,) = search(model, Batch.of(None, [sources[number]]), masks=own)
        assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in alone]
        assert [h.value for h in found] == pytest.approx([h.value for h in alone], abs=1e-10)
        if not required[number]:
            (free,) = search(model, Batch.of(None, [sources[number]]))
            assert [h.tokens for h in found] == [h.tokens for h in free]


@pytest.mark.parametrize("preset", ["attention-lm", "bahdanau", "transformer"])
def test_real_models_say_what_they_would_not(preset):
    model = real_model(preset, seed=3, vocabulary=30)
    sources, required = [[3, 8, 4], [5], [7, 7]], [[[29, 28, 27], [26]], [], [[25, 25]]]
    found = Beam(width=6)(model, batch_for(model, sources), masks=Masks(required=required, no_repeat=4))
    free = Beam(width=6)(model, batch_for(model, sources))
    for wanted, (h,), (other,) in zip(required, found, free, strict=True):
        assert all(has(h.tokens, phrase) for phrase in wanted)
        assert h.finished or not wanted
        assert not wanted or not all(has(other.tokens, phrase) for phrase in wanted)


def test_a_wide_beam_puts_a_word_where_it_fits():
    """b is likely after c and nowhere else: it is said there, though it could be said at once."""
    table = torch.full((6, 6), 0.001, dtype=torch.float64)
    table[1, 3], table[3, 5], table[5, 4], table[5, 2], table[4, 2] = 0.9, 0.9, 0.3, 0.6, 0.9
    (found,) = Beam(width=6)(TableModel(table), Batch.of(None, [[0]]), masks=Masks(required=[[[4]]]))
    assert found[0].tokens == [3, 5, 4]


@pytest.mark.parametrize("name", sorted(set(registry.parts("search")) - {"beam"}))
def test_other_searches_refuse_them_and_say_why(name):
    search = registry.build("search", name)
    with pytest.raises(OptionError, match=f"search '{name}' can't see to it .* use search 'beam'"):
        search(TableModel(TABLE), Batch.of(None, [[0]]), masks=Masks(required=[[[4]]]))


def test_nothing_required_is_refused_by_none():
    for name in registry.parts("search"):
        search = registry.build("search", {"name": name, "max_length": 2})
        assert search(TableModel(TABLE), Batch.of(None, [[0]] * 2), masks=Masks(required=[[], []]))[1]


def test_what_can_not_be():
    model, batch = TableModel(TABLE), Batch.of(None, [[0], [0]])
    with pytest.raises(
        SentenceError, match="sentence 1: its required phrase has 3 tokens, and its answer may have 2"
    ):
        Beam(max_length=2)(model, batch, masks=Masks(required=[[[4]], [[3], [3, 4, 5]]]))
    with pytest.raises(SizeError, match="required has 1 entries for 2 sentences"):
        Beam()(model, batch, masks=Masks(required=[[[4]]]))

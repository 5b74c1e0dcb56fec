"""Beam search: against all strings, and against itself in plain Python."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import END, START, shift
from seqloom.decode.beam import Beam
from seqloom.decode.diverse import Diverse
from seqloom.decode.exhaustive import Exhaustive
from seqloom.decode.greedy import Greedy
from seqloom.decode.masks import Masks
from seqloom.errors import OptionError
from tests.decode.plain import (
    BY_HAND,
    CONTENT,
    DIVISORS,
    TableModel,
    batch_for,
    drawn,
    every_answer,
    plain_beam,
    real_model,
)

NORMALISATIONS = sorted(DIVISORS)


def as_told(found, expected) -> None:
    assert [tuple(h.tokens) for h in found] == [answer.tokens for answer in expected]
    assert [h.log_prob for h in found] == pytest.approx([answer.log_prob for answer in expected], abs=1e-10)
    assert [h.value for h in found] == pytest.approx([answer.value for answer in expected], abs=1e-10)


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize(("least", "most"), [(0, 4), (2, 3)])
@pytest.mark.parametrize("table", [torch.tensor(BY_HAND, dtype=torch.float64), drawn(1), drawn(2, sharpness=3.0)])
def test_a_beam_that_holds_everything_finds_everything(table, normalisation, least, most):
    every = every_answer(table, normalisation, least, most)
    by_tokens = {answer.tokens: answer for answer in every}
    for n_best in (1, 3, len(every)):
        search = Beam(width=len(every), n_best=n_best, normalisation=normalisation, min_length=least, max_length=most)
        (found,) = search(TableModel(table), Batch.of(None, [[0, 7]]))
        assert len({tuple(h.tokens) for h in found}) == n_best
        as_told(found, [by_tokens[tuple(h.tokens)] for h in found])
        assert [h.value for h in found] == pytest.approx([answer.value for answer in every[:n_best]], abs=1e-10)
        assert all(h.finished for h in found)


def test_by_hand():
    """a b END has 0.41 · 0.43 · 0.53 = 0.0934; b END 0.29 · 0.53 = 0.1537."""
    model, batch = TableModel(BY_HAND), Batch.of(None, [[0]])
    assert Greedy()(model, batch)[0][0].tokens == [3, 4]
    (best,) = Beam(width=4, normalisation="none")(model, batch)[0]
    assert best.tokens == [4]
    assert best.log_prob == pytest.approx(torch.tensor(0.1537, dtype=torch.float64).log().item(), abs=1e-12)
    assert best.formula == "log_prob"
    (long,) = Beam(width=200, normalisation="average", max_length=4)(model, batch)[0]
    assert long.value == pytest.approx(long.log_prob / len(long.token_log_probs), abs=1e-12)


@pytest.mark.parametrize(
    ("preset", "coverage"),
    [
        ("attention-lm", 0.0),
        ("bahdanau", 0.0),
        ("luong", 0.0),
        ("transformer", 0.0),
        ("bahdanau", 0.7),
        ("transformer", 0.2),
    ],
)
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("kind", [Beam, Exhaustive])
def test_real_models_too(preset, coverage, normalisation, kind):
    """All strings are judged by teacher forcing and a softmax written out here."""
    model = real_model(preset)
    strings = [list(s) for n in range(4) for s in itertools.product(CONTENT, repeat=n)]
    sources = [[3, 8, 4, 5], [7, 6]]
    wide = {"width": len(strings)} if kind is Beam else {}
    for n_best in (2, len(strings)):
        search = kind(n_best=n_best, normalisation=normalisation, coverage=coverage, max_length=3, **wide)
        for source, answers in zip(sources, search(model, batch_for(model, sources)), strict=True):
            batch = Batch.of(strings, None if preset == "attention-lm" else [source] * len(strings))
            with torch.no_grad():
                memory = model.encode(batch)
                decoded = model(shift(model.output.start(memory), batch.target), memory, attention=True)
                z = model.output.logits(decoded.features)
                chosen = z.gather(2, batch.target.values[..., None])[..., 0] - z.exp().sum(2).log()
            log_probs = (chosen * batch.target.mask).sum(1).tolist()
            expected = {tuple(s): p for s, p in zip(strings, log_probs, strict=True)}
            values = {s: p / DIVISORS[normalisation](len(s) + 1) for s, p in expected.items()}
            if coverage:
                for s, weights_TS in zip(strings, decoded.attention.numpy(), strict=True):
                    covered = weights_TS[: len(s) + 1].sum(0)
                    values[tuple(s)] += coverage * np.log(np.minimum(covered, 1)).sum()
            assert [tuple(h.tokens) for h in answers] == sorted(values, key=lambda s: -values[s])[:n_best]
            for h in answers:
                assert h.log_prob == pytest.approx(expected[tuple(h.tokens)], abs=1e-10)
                assert h.value == pytest.approx(values[tuple(h.tokens)], abs=1e-10)
                assert sum(h.token_log_probs) == pytest.approx(h.log_prob, abs=1e-10)
                assert len(h.token_log_probs) == len(h.tokens) + 1


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sources=st.lists(st.lists(st.integers(3, 8), min_size=1, max_size=6), min_size=1, max_size=5),
    coverage=st.sampled_from([0.1, 1.0]),
    normalisation=st.sampled_from(NORMALISATIONS),
)
def test_coverage_in_a_batch_as_alone_and_as_the_weights_say(seed, sources, coverage, normalisation):
    model = real_model("bahdanau", seed=seed)
    search = Beam(width=4, n_best=3, coverage=coverage, normalisation=normalisation, max_length=6)
    for source, found in zip(sources, search(model, batch_for(model, sources)), strict=True):
        (alone,) = search(model, batch_for(model, [source]))
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        for h, other in zip(found, alone, strict=True):
            assert h.value == pytest.approx(other.value, abs=1e-10)
            penalty = coverage * float(h.weights.sum(0).clamp(max=1).log().sum())
            divisor = DIVISORS[normalisation](len(h.token_log_probs))
            assert h.value == pytest.approx(h.log_prob / divisor + penalty, abs=1e-10)
            assert h.formula.endswith(f" + {coverage:g} Σ_s log min(Σ_t w_ts, 1)")


def test_early_stopping_waits_for_what_reads_the_whole_source():
    """To end at once is likelier, but leaves the second step of the source unread (step t reads step t)."""
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[START, END], table[START, 3], table[3, END] = 0.9, 0.1, 1.0
    model, batch = TableModel(table), Batch.of(None, [[0, 7]])
    assert Beam(width=2, normalisation="none")(model, batch)[0][0].tokens == []
    (found,) = Beam(width=2, n_best=2, normalisation="none", coverage=0.5)(model, batch)
    assert [(h.tokens, h.value) for h in found] == [([3], pytest.approx(math.log(0.1))), ([], -math.inf)]


def test_answers_that_all_leave_something_unread_are_ranked_by_their_log_probability():
    """Three steps of a source, and no answer of more than one token: all have a value of −∞."""
    (found,) = Beam(width=9, n_best=9, normalisation="none", coverage=0.5, max_length=1)(
        TableModel(BY_HAND), Batch.of(None, [[0, 7, 7]])
    )
    assert {h.value for h in found} == {-math.inf}
    assert [h.log_prob for h in found] == sorted((h.log_prob for h in found), reverse=True)
    assert found[0].tokens == [4]


@pytest.mark.parametrize("preset", ["sutskever", "attention-lm"])
@pytest.mark.parametrize("kind", [Beam, Diverse, Exhaustive])
def test_coverage_needs_attention_to_a_source(preset, kind):
    model = real_model(preset)
    reason = "no attention" if preset == "sutskever" else "attention, but not to a source"
    with pytest.raises(OptionError, match=rf"coverage=0\.2 .* this model has {reason}"):
        kind(coverage=0.2, max_length=3)(model, batch_for(model, [[4, 5]]))


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=7),
    sharpness=st.sampled_from([0.5, 1.5, 4.0]),
    width=st.integers(1, 9),
    n_best=st.integers(1, 9),
    normalisation=st.sampled_from(NORMALISATIONS),
    least=st.integers(0, 3),
    extra=st.integers(0, 5),
    refill=st.booleans(),
)
def test_it_is_beam_search_without_early_stopping(
    seeds, sharpness, width, n_best, normalisation, least, extra, refill
):
    """In a batch, with stopping: what plain lists give for each sentence alone, without."""
    n_best, most = min(n_best, width), max(1, least + extra)
    tables = [drawn(seed, sharpness=sharpness) for seed in seeds]
    options = {"normalisation": normalisation, "min_length": least, "max_length": most, "refill": refill}
    search = Beam(width=width, n_best=n_best, **options)
    batch = Batch.of(None, [[number, *[5] * (number % 3)] for number in range(len(tables))])
    for found, table in zip(search(TableModel(*tables), batch), tables, strict=True):
        finished, cut = plain_beam(table, width, normalisation, least, most, refill=refill)
        as_told([h for h in found if h.finished], finished[:n_best])
        as_told([h for h in found if not h.finished], cut[: max(0, n_best - len(finished))])


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5), most=st.integers(1, 8))
def test_width_1_is_greedy(seeds, most):
    model = TableModel(*[drawn(seed, sharpness=2.0) for seed in seeds])
    batch = Batch.of(None, [[number] for number in range(len(seeds))])
    for normalisation in NORMALISATIONS:
        beam = Beam(width=1, normalisation=normalisation, max_length=most, refill=most % 2 == 0)(model, batch)
        for (one,), (other,) in zip(beam, Greedy(max_length=most)(model, batch), strict=True):
            assert (one.tokens, one.token_log_probs, one.finished) == (
                other.tokens,
                other.token_log_probs,
                other.finished,
            )


def test_wider_than_the_vocabulary_with_fewer_answers_than_asked_for():
    (found,) = Beam(width=50, n_best=50, max_length=1)(TableModel(BY_HAND), Batch.of(None, [[0]]))
    assert sorted(h.tokens for h in found) == [[], [3], [4], [5]]


def test_a_place_that_is_left_is_filled_again_until_there_are_as_many_answers_as_places():
    """a or b, and each then ends at once or goes on: whoever keeps its place is alone with one that goes on."""
    table = torch.zeros(6, 6)
    table[1, 3], table[1, 4] = 0.6, 0.4
    table[3, END], table[3, 5] = 0.9, 0.1
    table[4, END], table[4, 5] = 0.2, 0.8
    table[5, END] = 1.0
    for refill, rows in ((False, [1, 2, 1]), (True, [1, 2, 2])):
        model = TableModel(table)
        (found,) = Beam(width=2, n_best=2, normalisation="none", refill=refill)(model, Batch.of(None, [[0]]))
        assert [h.tokens for h in found] == [[3], [4, 5]]
        assert [seen for seen, _ in model.seen] == rows


def test_a_beam_that_is_filled_again_has_no_places_for_words_that_must_be_said():
    with pytest.raises(OptionError, match="leave out refill"):
        Beam(refill=True)(TableModel(BY_HAND), Batch.of(None, [[0]]), masks=Masks(required=[[[3]]]))


def test_early_stopping_stops():
    """Nine tenths for END at once: without normalisation nothing can better that, and nothing is looked at."""
    table = torch.zeros(6, 6)
    table[:, END], table[:, 3] = 0.9, 0.1
    model = TableModel(table)
    Beam(width=4, normalisation="none", max_length=30)(model, Batch.of(None, [[0]]))
    assert len(model.seen) == 1
    Beam(width=4, n_best=2, normalisation="none", max_length=30)(model, Batch.of(None, [[0]]))
    assert len(model.seen) == 1 + 2


@pytest.mark.parametrize("normalisation", ["average", "wu"])
def test_early_stopping_waits_for_what_is_long_and_better(normalisation):
    """To end at once is likelier than to go on, but whoever goes on is sure of all that follows."""
    table = torch.zeros(10, 6, 6, dtype=torch.float64)
    table[0, :, END], table[0, :, 3] = 0.55, 0.45
    table[1:7, :, 4], table[7:, :, END] = 1.0, 1.0
    (found,) = Beam(width=2, normalisation=normalisation, max_length=9)(TableModel(table), Batch.of(None, [[0]]))
    assert found[0].tokens == [3, *[4] * 6]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.7])
def test_alpha_is_the_power_of_wu(alpha):
    (found,) = Beam(width=400, n_best=400, max_length=4, normalisation="wu", alpha=alpha)(
        TableModel(drawn(5)), Batch.of(None, [[0]])
    )
    assert len({len(h.tokens) for h in found}) > 3
    for h in found:
        assert h.value == pytest.approx(h.log_prob / ((5 + len(h.tokens) + 1) / 6) ** alpha, abs=1e-10)
    assert [h.value for h in found] == sorted((h.value for h in found), reverse=True)

"""Beam search: compared with all strings, and with a plain Python reference."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import BOS, EOS, shift
from seqloom.decode.beam import Beam
from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.diverse_beam import DiverseBeam
from seqloom.decode.exhaustive import Exhaustive
from seqloom.decode.greedy import Greedy
from seqloom.errors import ConfigError
from tests.decode.reference import (
    BY_HAND,
    CONTENT,
    DIVISORS,
    TableModel,
    all_hypotheses,
    batch_for,
    random_table,
    real_model,
    reference_beam_search,
)

LENGTH_PENALTIES = sorted(DIVISORS)


def assert_equal_hypotheses(found, expected) -> None:
    assert [tuple(h.tokens) for h in found] == [h.tokens for h in expected]
    assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in expected], abs=1e-10)
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-10)


@pytest.mark.parametrize("length_penalty", LENGTH_PENALTIES)
@pytest.mark.parametrize(("min_length", "max_length"), [(0, 4), (2, 3)])
@pytest.mark.parametrize(
    "table", [torch.tensor(BY_HAND, dtype=torch.float64), random_table(1), random_table(2, sharpness=3.0)]
)
def test_beam_of_all_hypotheses_finds_all_hypotheses(table, length_penalty, min_length, max_length):
    expected = all_hypotheses(table, length_penalty, min_length, max_length)
    by_tokens = {h.tokens: h for h in expected}
    for n_best in (1, 3, len(expected)):
        search = Beam(
            beam_size=len(expected),
            n_best=n_best,
            length_penalty=length_penalty,
            min_length=min_length,
            max_length=max_length,
        )
        (found,) = search(TableModel(table), Batch.from_lists(None, [[0, 7]]))
        assert len({tuple(h.tokens) for h in found}) == n_best
        assert_equal_hypotheses(found, [by_tokens[tuple(h.tokens)] for h in found])
        assert [h.score for h in found] == pytest.approx([h.score for h in expected[:n_best]], abs=1e-10)
        assert all(h.finished for h in found)


def test_beam_search_finds_more_likely_output_than_greedy_search():
    """a b EOS has 0.41 · 0.43 · 0.53 = 0.0934; b EOS 0.29 · 0.53 = 0.1537."""
    model, batch = TableModel(BY_HAND), Batch.from_lists(None, [[0]])
    assert Greedy()(model, batch)[0][0].tokens == [3, 4]
    (best,) = Beam(beam_size=4, length_penalty="none")(model, batch)[0]
    assert best.tokens == [4]
    assert best.log_prob == pytest.approx(torch.tensor(0.1537, dtype=torch.float64).log().item(), abs=1e-12)
    assert best.score_formula == "log_prob"
    (long,) = Beam(beam_size=200, length_penalty="average", max_length=4)(model, batch)[0]
    assert long.score == pytest.approx(long.log_prob / len(long.token_log_probs), abs=1e-12)


@pytest.mark.parametrize(
    ("preset", "coverage_penalty"),
    [
        ("attention-lm", 0.0),
        ("bahdanau", 0.0),
        ("luong", 0.0),
        ("transformer", 0.0),
        ("bahdanau", 0.7),
        ("transformer", 0.2),
    ],
)
@pytest.mark.parametrize("length_penalty", LENGTH_PENALTIES)
@pytest.mark.parametrize("kind", [Beam, Exhaustive])
def test_scores_of_real_models_equal_teacher_forcing(preset, coverage_penalty, length_penalty, kind):
    """The score of every string is computed by teacher forcing and an explicit softmax."""
    model = real_model(preset)
    strings = [list(s) for n in range(4) for s in itertools.product(CONTENT, repeat=n)]
    sources = [[3, 8, 4, 5], [7, 6]]
    options = {"beam_size": len(strings)} if kind is Beam else {}
    for n_best in (2, len(strings)):
        search = kind(
            n_best=n_best, length_penalty=length_penalty, coverage_penalty=coverage_penalty, max_length=3, **options
        )
        for source, hypotheses in zip(sources, search(model, batch_for(model, sources)), strict=True):
            batch = Batch.from_lists(strings, None if preset == "attention-lm" else [source] * len(strings))
            with torch.no_grad():
                memory = model.encode(batch)
                decoded = model(shift(model.output.start(memory), batch.target), memory, attention=True)
                z = model.output.logits(decoded.features)
                chosen = z.gather(2, batch.target.values[..., None])[..., 0] - z.exp().sum(2).log()
            log_probs = (chosen * batch.target.mask).sum(1).tolist()
            expected = {tuple(s): p for s, p in zip(strings, log_probs, strict=True)}
            values = {s: p / DIVISORS[length_penalty](len(s) + 1) for s, p in expected.items()}
            if coverage_penalty:
                for s, attention_TS in zip(strings, decoded.attention.numpy(), strict=True):
                    covered = attention_TS[: len(s) + 1].sum(0)
                    values[tuple(s)] += coverage_penalty * np.log(np.minimum(covered, 1)).sum()
            assert [tuple(h.tokens) for h in hypotheses] == sorted(values, key=lambda s: -values[s])[:n_best]
            for h in hypotheses:
                assert h.log_prob == pytest.approx(expected[tuple(h.tokens)], abs=1e-10)
                assert h.score == pytest.approx(values[tuple(h.tokens)], abs=1e-10)
                assert sum(h.token_log_probs) == pytest.approx(h.log_prob, abs=1e-10)
                assert len(h.token_log_probs) == len(h.tokens) + 1


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sources=st.lists(st.lists(st.integers(3, 8), min_size=1, max_size=6), min_size=1, max_size=5),
    coverage_penalty=st.sampled_from([0.1, 1.0]),
    length_penalty=st.sampled_from(LENGTH_PENALTIES),
)
def test_coverage_penalty_follows_attention_and_is_independent_of_the_batch(
    seed, sources, coverage_penalty, length_penalty
):
    model = real_model("bahdanau", seed=seed)
    search = Beam(
        beam_size=4, n_best=3, coverage_penalty=coverage_penalty, length_penalty=length_penalty, max_length=6
    )
    for source, found in zip(sources, search(model, batch_for(model, sources)), strict=True):
        (alone,) = search(model, batch_for(model, [source]))
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        for h, other in zip(found, alone, strict=True):
            assert h.score == pytest.approx(other.score, abs=1e-10)
            penalty = coverage_penalty * float(h.attention.sum(0).clamp(max=1).log().sum())
            divisor = DIVISORS[length_penalty](len(h.token_log_probs))
            assert h.score == pytest.approx(h.log_prob / divisor + penalty, abs=1e-10)
            assert h.score_formula.endswith(f" + {coverage_penalty:g} Σ_s log min(Σ_t w_ts, 1)")


def test_early_stopping_is_exact_with_coverage_penalty():
    """Ending at once is more likely, but leaves the second source position uncovered (step t covers position t)."""
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[BOS, EOS], table[BOS, 3], table[3, EOS] = 0.9, 0.1, 1.0
    model, batch = TableModel(table), Batch.from_lists(None, [[0, 7]])
    assert Beam(beam_size=2, length_penalty="none")(model, batch)[0][0].tokens == []
    (found,) = Beam(beam_size=2, n_best=2, length_penalty="none", coverage_penalty=0.5)(model, batch)
    assert [(h.tokens, h.score) for h in found] == [([3], pytest.approx(math.log(0.1))), ([], -math.inf)]


def test_hypotheses_with_score_minus_infinity_are_ranked_by_log_probability():
    """With three source positions and at most one token, all hypotheses have a score of −∞."""
    (found,) = Beam(beam_size=9, n_best=9, length_penalty="none", coverage_penalty=0.5, max_length=1)(
        TableModel(BY_HAND), Batch.from_lists(None, [[0, 7, 7]])
    )
    assert {h.score for h in found} == {-math.inf}
    assert [h.log_prob for h in found] == sorted((h.log_prob for h in found), reverse=True)
    assert found[0].tokens == [4]


@pytest.mark.parametrize("preset", ["sutskever", "attention-lm"])
@pytest.mark.parametrize("kind", [Beam, DiverseBeam, Exhaustive])
def test_coverage_penalty_needs_attention_to_the_source(preset, kind):
    model = real_model(preset)
    reason = "no attention" if preset == "sutskever" else "attention, but not to a source"
    with pytest.raises(ConfigError, match=rf"coverage_penalty=0\.2 .* this model has {reason}"):
        kind(coverage_penalty=0.2, max_length=3)(model, batch_for(model, [[4, 5]]))


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=7),
    sharpness=st.sampled_from([0.5, 1.5, 4.0]),
    beam_size=st.integers(1, 9),
    n_best=st.integers(1, 9),
    length_penalty=st.sampled_from(LENGTH_PENALTIES),
    min_length=st.integers(0, 3),
    extra=st.integers(0, 5),
    refill=st.booleans(),
)
def test_beam_search_equals_reference_without_early_stopping(
    seeds, sharpness, beam_size, n_best, length_penalty, min_length, extra, refill
):
    """A batch with early stopping gives the same as the reference for each sentence without."""
    n_best, max_length = min(n_best, beam_size), max(1, min_length + extra)
    tables = [random_table(seed, sharpness=sharpness) for seed in seeds]
    options = {"length_penalty": length_penalty, "min_length": min_length, "max_length": max_length, "refill": refill}
    search = Beam(beam_size=beam_size, n_best=n_best, **options)
    batch = Batch.from_lists(None, [[number, *[5] * (number % 3)] for number in range(len(tables))])
    for found, table in zip(search(TableModel(*tables), batch), tables, strict=True):
        finished, truncated = reference_beam_search(
            table, beam_size, length_penalty, min_length, max_length, refill=refill
        )
        assert_equal_hypotheses([h for h in found if h.finished], finished[:n_best])
        assert_equal_hypotheses([h for h in found if not h.finished], truncated[: max(0, n_best - len(finished))])


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5), max_length=st.integers(1, 8))
def test_beam_size_1_equals_greedy_search(seeds, max_length):
    model = TableModel(*[random_table(seed, sharpness=2.0) for seed in seeds])
    batch = Batch.from_lists(None, [[number] for number in range(len(seeds))])
    for length_penalty in LENGTH_PENALTIES:
        beam = Beam(beam_size=1, length_penalty=length_penalty, max_length=max_length, refill=max_length % 2 == 0)(
            model, batch
        )
        for (one,), (other,) in zip(beam, Greedy(max_length=max_length)(model, batch), strict=True):
            assert (one.tokens, one.token_log_probs, one.finished) == (
                other.tokens,
                other.token_log_probs,
                other.finished,
            )


def test_beam_size_above_vocabulary_size_returns_all_hypotheses():
    (found,) = Beam(beam_size=50, n_best=50, max_length=1)(TableModel(BY_HAND), Batch.from_lists(None, [[0]]))
    assert sorted(h.tokens for h in found) == [[], [3], [4], [5]]


def test_refill_gives_slots_of_finished_hypotheses_to_unfinished_ones():
    """a and b may end at once or continue; without refill, only one slot is left for unfinished hypotheses."""
    table = torch.zeros(6, 6)
    table[1, 3], table[1, 4] = 0.6, 0.4
    table[3, EOS], table[3, 5] = 0.9, 0.1
    table[4, EOS], table[4, 5] = 0.2, 0.8
    table[5, EOS] = 1.0
    for refill, expected_rows in ((False, [1, 2, 1]), (True, [1, 2, 2])):
        model = TableModel(table)
        (found,) = Beam(beam_size=2, n_best=2, length_penalty="none", refill=refill)(
            model, Batch.from_lists(None, [[0]])
        )
        assert [h.tokens for h in found] == [[3], [4, 5]]
        assert [rows for rows, _ in model.calls] == expected_rows


def test_refill_with_required_phrases_raises_error():
    with pytest.raises(ConfigError, match="remove refill"):
        Beam(refill=True)(
            TableModel(BY_HAND), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(required=[[[3]]])
        )


def test_early_stopping_saves_steps():
    """p(EOS) = 0.9 at the first step: without length penalty no continuation can score higher."""
    table = torch.zeros(6, 6)
    table[:, EOS], table[:, 3] = 0.9, 0.1
    model = TableModel(table)
    Beam(beam_size=4, length_penalty="none", max_length=30)(model, Batch.from_lists(None, [[0]]))
    assert len(model.calls) == 1
    Beam(beam_size=4, n_best=2, length_penalty="none", max_length=30)(model, Batch.from_lists(None, [[0]]))
    assert len(model.calls) == 1 + 2


@pytest.mark.parametrize("length_penalty", ["average", "wu"])
def test_early_stopping_is_exact_with_length_penalty(length_penalty):
    """Ending at once is more likely, but all tokens of the continuation have probability 1."""
    table = torch.zeros(10, 6, 6, dtype=torch.float64)
    table[0, :, EOS], table[0, :, 3] = 0.55, 0.45
    table[1:7, :, 4], table[7:, :, EOS] = 1.0, 1.0
    (found,) = Beam(beam_size=2, length_penalty=length_penalty, max_length=9)(
        TableModel(table), Batch.from_lists(None, [[0]])
    )
    assert found[0].tokens == [3, *[4] * 6]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.7])
def test_alpha_is_the_exponent_of_the_wu_length_penalty(alpha):
    (found,) = Beam(beam_size=400, n_best=400, max_length=4, length_penalty="wu", alpha=alpha)(
        TableModel(random_table(5)), Batch.from_lists(None, [[0]])
    )
    assert len({len(h.tokens) for h in found}) > 3
    for h in found:
        assert h.score == pytest.approx(h.log_prob / ((5 + len(h.tokens) + 1) / 6) ** alpha, abs=1e-10)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)

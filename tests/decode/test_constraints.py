"""Token constraints: hypotheses satisfy them, and no other hypotheses are lost."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import BOS, EOS, UNK
from seqloom.decode import TokenConstraints
from seqloom.decode.beam import Beam
from seqloom.decode.diverse_beam import DiverseBeam
from seqloom.decode.exhaustive import Exhaustive
from seqloom.decode.greedy import Greedy
from seqloom.decode.mbr import Mbr
from seqloom.decode.sample import Sample
from seqloom.decode.stochastic_beam import StochasticBeam
from seqloom.errors import ConfigError, InputError, SentenceError, ShapeError
from tests.decode.reference import (
    BY_HAND,
    CONTENT,
    TableModel,
    all_hypotheses,
    batch_for,
    has,
    log_probs,
    random_table,
    real_model,
    repeats,
)

TABLE = torch.tensor(BY_HAND, dtype=torch.float64)
MOST = 4
KINDS = [
    Greedy(max_length=9),
    Beam(beam_size=4, n_best=4, max_length=9),
    Sample(samples=5, max_length=9),
    DiverseBeam(beam_size=4, max_length=9, groups=2),
    StochasticBeam(beam_size=4, max_length=9),
    Mbr(samples=6, n_best=3, max_length=9),
    Exhaustive(n_best=5, max_length=4),
]


def non_decreasing(tokens_RT):
    """A grammar: token ids never decrease, and only c may be last."""
    allowed_RV = torch.zeros(len(tokens_RT), 6, dtype=torch.bool)
    last_R = tokens_RT[:, -1] if tokens_RT.shape[1] else torch.full((len(tokens_RT),), 3)
    allowed_RV[:, 3:] = torch.arange(3, 6) >= last_R[:, None]
    allowed_RV[:, EOS] = last_R == 5
    return allowed_RV


ALLOWED = {
    "prefix": (TokenConstraints(prefix=[[5, 4]]), lambda y: y[:2] == (5, 4)),
    "no prefix": (TokenConstraints(prefix=[[]]), lambda y: True),
    "tokens": (TokenConstraints(forbidden=[[4], [5]]), lambda y: not {4, 5} & set(y)),
    "phrases": (
        TokenConstraints(forbidden=[[4, 5], [3, 3, 4], [5, 5]]),
        lambda y: not (has(y, (4, 5)) or has(y, (3, 3, 4)) or has(y, (5, 5))),
    ),
    "no repeated token": (TokenConstraints(no_repeat_ngram_size=1), lambda y: not repeats(y, 1)),
    "no repeated bigram": (TokenConstraints(no_repeat_ngram_size=2), lambda y: not repeats(y, 2)),
    "grammar": (TokenConstraints(grammar=non_decreasing), lambda y: list(y) == sorted(y) and y[-1:] == (5,)),
    "several": (
        TokenConstraints(prefix=[[5]], forbidden=[[4, 3], [5, 3]], no_repeat_ngram_size=2),
        lambda y: y[:1] == (5,) and not has(y, (4, 3)) and not has(y, (5, 3)) and not repeats(y, 2),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("table", [TABLE, random_table(1), random_table(2, sharpness=3.0)])
@pytest.mark.parametrize("kind", [Beam, Exhaustive])
def test_search_finds_exactly_the_allowed_hypotheses(name, table, kind):
    constraints, allowed = ALLOWED[name]
    search = kind(n_best=400, max_length=MOST, **({"beam_size": 400} if kind is Beam else {}))
    expected = [h for h in all_hypotheses(table, "average", 0, MOST) if allowed(h.tokens)]
    found = [
        h
        for h in search(TableModel(table), Batch.from_lists(None, [[0, 7]]), constraints=constraints)[0]
        if h.finished
    ]
    assert {tuple(h.tokens) for h in found} == {h.tokens for h in expected}
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-10)


@pytest.mark.parametrize("theta", [1.5, 3.0, 0.5])
@pytest.mark.parametrize("table", [TABLE, random_table(3)])
def test_repetition_penalty_changes_ranking_but_not_reported_log_probs(table, theta):
    """q_v ∝ p_v^θ if v has occurred; the search uses q, and reports p."""
    steps = table if table.dim() == 3 else table[None]
    scores = {}
    for n in range(MOST + 1):
        for tokens in itertools.product(CONTENT, repeat=n):
            log_q = 0.0
            for t, (a, b) in enumerate(itertools.pairwise([BOS, *tokens, EOS])):
                p = steps[t % len(steps), a].tolist()
                q = [x**theta if v in tokens[:t] else x for v, x in enumerate(p)]
                log_q += math.log(q[b] / sum(q))
            scores[tokens] = log_q / (n + 1)
    search = Beam(beam_size=400, n_best=400, max_length=MOST)
    (found,) = search(
        TableModel(table), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(repetition_penalty=theta)
    )
    assert [h.score for h in found] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-10)
    for h in found:
        assert h.score == pytest.approx(scores[tuple(h.tokens)], abs=1e-10)
        assert h.token_log_probs == pytest.approx(log_probs(table, [*h.tokens, EOS]), abs=1e-10)
        assert h.log_prob == pytest.approx(sum(h.token_log_probs), abs=1e-10)
        assert h.score_formula == "log_prob / n, log_prob after the repetition penalty"


@pytest.mark.parametrize("search", KINDS, ids=lambda s: type(s).__name__)
@settings(max_examples=6, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    prefixes=st.lists(st.lists(st.sampled_from(CONTENT), max_size=3), min_size=5, max_size=5),
    forbidden=st.lists(st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3), max_size=3),
    no_repeat_ngram_size=st.sampled_from([None, 1, 2, 3]),
    theta=st.sampled_from([1.0, 2.0]),
)
def test_constraints_hold_in_every_search_independently_of_the_batch(
    search, seeds, prefixes, forbidden, no_repeat_ngram_size, theta
):
    model = TableModel(*[random_table(seed, sharpness=2.0) for seed in seeds])
    sources = [[number, *[5] * (number % 3)] for number in range(len(seeds))]
    constraints = TokenConstraints(
        prefixes[: len(seeds)], forbidden, no_repeat_ngram_size=no_repeat_ngram_size, repetition_penalty=theta
    )
    together = search(model, Batch.from_lists(None, sources), constraints=constraints)
    for number, (source, found) in enumerate(zip(sources, together, strict=True)):
        prefix = prefixes[number]
        (alone,) = search(model, Batch.from_lists(None, [source]), constraints=replace(constraints, prefix=[prefix]))
        assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-10)
        for h in found:
            assert h.tokens[: len(prefix)] == prefix
            # The tokens after the prefix complete no forbidden phrase and no repeated n-gram.
            for end in range(len(prefix) + 1, len(h.tokens) + 1):
                tokens = tuple(h.tokens[:end])
                assert not any(tokens[-len(phrase) :] == tuple(phrase) for phrase in forbidden)
                assert (
                    no_repeat_ngram_size is None
                    or not has(tokens[:-1], tokens[-no_repeat_ngram_size:])
                    or end < no_repeat_ngram_size
                )
            assert h.finished or len(h.tokens) == search.lengths.max_length


def test_forced_prefix_has_model_log_probs_and_precedence():
    model, prefix = TableModel(TABLE), [UNK, UNK, 4]
    constraints = TokenConstraints([prefix], forbidden=[[4]], no_repeat_ngram_size=1, repetition_penalty=2.0)
    (found,) = Greedy(allow_unk=False, min_length=3)(model, Batch.from_lists(None, [[0]]), constraints=constraints)
    assert found[0].tokens[:3] == prefix
    assert found[0].token_log_probs[:3] == pytest.approx(log_probs(TABLE, prefix), abs=1e-12)


@pytest.mark.parametrize("preset", ["attention-lm", "bahdanau", "transformer"])
def test_real_models_continue_a_forced_prefix(preset):
    """A forced prefix of an unconstrained output leads to the same output."""
    model = real_model(preset, seed=3, vocabulary=9)
    batch = batch_for(model, [[3, 8, 4], [5]])
    free = [one[0] for one in Greedy(max_length=8)(model, batch)]
    for n in range(4):
        constraints = TokenConstraints(prefix=[h.tokens[:n] for h in free])
        forced = [one[0] for one in Greedy(max_length=8)(model, batch, constraints=constraints)]
        assert [h.tokens for h in forced] == [h.tokens for h in free]
        for one, other in zip(forced, free, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-12)


@pytest.mark.parametrize("search", KINDS, ids=lambda s: type(s).__name__)
def test_hypotheses_are_truncated_if_all_continuations_are_forbidden(search):
    (found,) = search(
        TableModel(TABLE), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(grammar=nothing_after_two)
    )
    assert {(tuple(h.tokens[2:]), h.finished) for h in found} == {((), False)}


def nothing_after_two(tokens_RT):
    allowed_RV = torch.zeros(len(tokens_RT), 6, dtype=torch.bool)
    allowed_RV[:, 3:] = tokens_RT.shape[1] < 2
    return allowed_RV


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: TokenConstraints(no_repeat_ngram_size=0), ConfigError, "no_repeat_ngram_size=0"),
        (
            lambda: TokenConstraints(repetition_penalty=0.0),
            ConfigError,
            "repetition_penalty=0.0 is invalid: it must be above 0",
        ),
        (lambda: TokenConstraints(forbidden=[[]]), InputError, "forbidden contains an empty phrase"),
        (lambda: TokenConstraints(required=[[[3], []]]), InputError, "required contains an empty phrase"),
        (lambda: TokenConstraints(prefix=[[3, EOS]]), InputError, r"prefix: \[3, 2\] contains PAD, BOS or EOS"),
        (lambda: decode(TokenConstraints(prefix=[[3], [4]])), ShapeError, "prefix has 2 entries for 1 sentences"),
        (
            lambda: decode(TokenConstraints(prefix=[[3, 4, 5]])),
            SentenceError,
            "sentence 0: its prefix has 3 tokens, but the maximum length is 2",
        ),
    ],
)
def test_invalid_constraints_raise_errors(make, error, says):
    with pytest.raises(error, match=says):
        make()


def decode(constraints):
    return Greedy(max_length=2)(TableModel(TABLE), Batch.from_lists(None, [[0]]), constraints=constraints)


def test_dead_end_is_returned_in_any_batch():
    """Also if every selected candidate of the batch continues."""

    def grammar(tokens_RT):
        follow = {(): [4, 5], (5,): [6, 7], (8,): [9], (8, 9): [EOS]}
        allowed = torch.zeros(len(tokens_RT), 10, dtype=torch.bool)
        for row, tokens in enumerate(tokens_RT.tolist()):
            allowed[row, follow.get(tuple(tokens), [])] = True
        return allowed

    model = real_model("luong", vocabulary=10, **{"encoder.layers": 2, "decoder.layers": 2})
    search = Beam(beam_size=2, n_best=2)
    (alone,) = search(model, Batch.from_lists(None, [[4, 5]]), constraints=TokenConstraints(grammar=grammar))
    constraints = TokenConstraints(grammar=grammar, prefix=[[], [8]])
    together, _ = search(model, Batch.from_lists(None, [[4, 5], [6, 7]]), constraints=constraints)
    assert [h.tokens for h in alone] == [h.tokens for h in together]
    assert [4] in [h.tokens for h in alone]


def test_error_uses_the_given_sentence_numbers():
    constraints = TokenConstraints(prefix=[[4] * 9, []], numbers=[1, 0])
    with pytest.raises(SentenceError, match="sentence 1: its prefix has 9"):
        Greedy(max_length=3)(real_model("luong"), Batch.from_lists(None, [[4], [5]]), constraints=constraints)

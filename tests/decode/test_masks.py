"""Masks: what they forbid is in no answer, and nothing else is lost."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import END, START, UNKNOWN
from seqloom.decode import Masks
from seqloom.decode.beam import Beam
from seqloom.decode.diverse import Diverse
from seqloom.decode.exhaustive import Exhaustive
from seqloom.decode.greedy import Greedy
from seqloom.decode.mbr import Mbr
from seqloom.decode.sample import Sample
from seqloom.decode.stochastic import Stochastic
from seqloom.errors import InputError, OptionError, SentenceError, SizeError
from tests.decode.plain import (
    BY_HAND,
    CONTENT,
    TableModel,
    batch_for,
    drawn,
    every_answer,
    has,
    log_probs,
    real_model,
    repeats,
)

TABLE = torch.tensor(BY_HAND, dtype=torch.float64)
MOST = 4
KINDS = [
    Greedy(max_length=9),
    Beam(width=4, n_best=4, max_length=9),
    Sample(samples=5, max_length=9),
    Diverse(width=4, max_length=9, groups=2),
    Stochastic(width=4, max_length=9),
    Mbr(samples=6, n_best=3, max_length=9),
    Exhaustive(n_best=5, max_length=4),
]


def rising(tokens_RT):
    """A grammar: no token before a smaller one, and an end only after c."""
    allowed_RV = torch.zeros(len(tokens_RT), 6, dtype=torch.bool)
    last_R = tokens_RT[:, -1] if tokens_RT.shape[1] else torch.full((len(tokens_RT),), 3)
    allowed_RV[:, 3:] = torch.arange(3, 6) >= last_R[:, None]
    allowed_RV[:, END] = last_R == 5
    return allowed_RV


ALLOWED = {
    "prefix": (Masks(prefix=[[5, 4]]), lambda y: y[:2] == (5, 4)),
    "no prefix": (Masks(prefix=[[]]), lambda y: True),
    "words": (Masks(forbidden=[[4], [5]]), lambda y: not {4, 5} & set(y)),
    "phrases": (
        Masks(forbidden=[[4, 5], [3, 3, 4], [5, 5]]),
        lambda y: not (has(y, (4, 5)) or has(y, (3, 3, 4)) or has(y, (5, 5))),
    ),
    "no token twice": (Masks(no_repeat=1), lambda y: not repeats(y, 1)),
    "no pair twice": (Masks(no_repeat=2), lambda y: not repeats(y, 2)),
    "grammar": (Masks(grammar=rising), lambda y: list(y) == sorted(y) and y[-1:] == (5,)),
    "several": (
        Masks(prefix=[[5]], forbidden=[[4, 3], [5, 3]], no_repeat=2),
        lambda y: y[:1] == (5,) and not has(y, (4, 3)) and not has(y, (5, 3)) and not repeats(y, 2),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("table", [TABLE, drawn(1), drawn(2, sharpness=3.0)])
@pytest.mark.parametrize("kind", [Beam, Exhaustive])
def test_all_that_is_allowed_and_nothing_else(name, table, kind):
    masks, allowed = ALLOWED[name]
    wide = kind(n_best=400, max_length=MOST, **({"width": 400} if kind is Beam else {}))
    expected = [answer for answer in every_answer(table, "average", 0, MOST) if allowed(answer.tokens)]
    found = [h for h in wide(TableModel(table), Batch.of(None, [[0, 7]]), masks=masks)[0] if h.finished]
    assert {tuple(h.tokens) for h in found} == {answer.tokens for answer in expected}
    assert [h.value for h in found] == pytest.approx([answer.value for answer in expected], abs=1e-10)


@pytest.mark.parametrize("theta", [1.5, 3.0, 0.5])
@pytest.mark.parametrize("table", [TABLE, drawn(3)])
def test_the_repetition_penalty(table, theta):
    """q_v ∝ p_v^θ where v was said; the search goes by q, and reports p."""
    steps = table if table.dim() == 3 else table[None]
    values = {}
    for n in range(MOST + 1):
        for tokens in itertools.product(CONTENT, repeat=n):
            log_q = 0.0
            for t, (a, b) in enumerate(itertools.pairwise([START, *tokens, END])):
                p = steps[t % len(steps), a].tolist()
                q = [x**theta if v in tokens[:t] else x for v, x in enumerate(p)]
                log_q += math.log(q[b] / sum(q))
            values[tokens] = log_q / (n + 1)
    search = Beam(width=400, n_best=400, max_length=MOST)
    (found,) = search(TableModel(table), Batch.of(None, [[0]]), masks=Masks(repetition_penalty=theta))
    assert [h.value for h in found] == pytest.approx(sorted(values.values(), reverse=True), abs=1e-10)
    for h in found:
        assert h.value == pytest.approx(values[tuple(h.tokens)], abs=1e-10)
        assert h.token_log_probs == pytest.approx(log_probs(table, [*h.tokens, END]), abs=1e-10)
        assert h.log_prob == pytest.approx(sum(h.token_log_probs), abs=1e-10)
        assert h.formula == "log_prob / n, log_prob after the repetition penalty"


@pytest.mark.parametrize("search", KINDS, ids=lambda s: type(s).__name__)
@settings(max_examples=6, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    prefixes=st.lists(st.lists(st.sampled_from(CONTENT), max_size=3), min_size=5, max_size=5),
    forbidden=st.lists(st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3), max_size=3),
    no_repeat=st.sampled_from([None, 1, 2, 3]),
    theta=st.sampled_from([1.0, 2.0]),
)
def test_every_search_keeps_to_them_in_a_batch_as_alone(search, seeds, prefixes, forbidden, no_repeat, theta):
    model = TableModel(*[drawn(seed, sharpness=2.0) for seed in seeds])
    sources = [[number, *[5] * (number % 3)] for number in range(len(seeds))]
    masks = Masks(prefixes[: len(seeds)], forbidden, no_repeat=no_repeat, repetition_penalty=theta)
    together = search(model, Batch.of(None, sources), masks=masks)
    for number, (source, found) in enumerate(zip(sources, together, strict=True)):
        prefix = prefixes[number]
        (alone,) = search(model, Batch.of(None, [source]), masks=replace(masks, prefix=[prefix]))
        assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in alone]
        assert [h.value for h in found] == pytest.approx([h.value for h in alone], abs=1e-10)
        for h in found:
            assert h.tokens[: len(prefix)] == prefix
            # What is said after the prefix makes nothing that is forbidden.
            for end in range(len(prefix) + 1, len(h.tokens) + 1):
                said = tuple(h.tokens[:end])
                assert not any(said[-len(phrase) :] == tuple(phrase) for phrase in forbidden)
                assert no_repeat is None or not has(said[:-1], said[-no_repeat:]) or end < no_repeat
            assert h.finished or len(h.tokens) == search.lengths.max_length


def test_a_forced_prefix_has_its_probabilities_and_goes_before_all_else():
    model, prefix = TableModel(TABLE), [UNKNOWN, UNKNOWN, 4]
    masks = Masks([prefix], forbidden=[[4]], no_repeat=1, repetition_penalty=2.0)
    (found,) = Greedy(unknown=False, min_length=3)(model, Batch.of(None, [[0]]), masks=masks)
    assert found[0].tokens[:3] == prefix
    assert found[0].token_log_probs[:3] == pytest.approx(log_probs(TABLE, prefix), abs=1e-12)


@pytest.mark.parametrize("preset", ["attention-lm", "bahdanau", "transformer"])
def test_real_models_go_on_from_a_prefix(preset):
    """As if they had said it themselves: what follows is what follows the same beginning of a free answer."""
    model = real_model(preset, seed=3, vocabulary=9)
    batch = batch_for(model, [[3, 8, 4], [5]])
    free = [one[0] for one in Greedy(max_length=8)(model, batch)]
    for n in range(4):
        masks = Masks(prefix=[h.tokens[:n] for h in free])
        forced = [one[0] for one in Greedy(max_length=8)(model, batch, masks=masks)]
        assert [h.tokens for h in forced] == [h.tokens for h in free]
        for one, other in zip(forced, free, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-12)


@pytest.mark.parametrize("search", KINDS, ids=lambda s: type(s).__name__)
def test_all_continuations_forbidden(search):
    (found,) = search(TableModel(TABLE), Batch.of(None, [[0]]), masks=Masks(grammar=nothing_after_two))
    assert {(tuple(h.tokens[2:]), h.finished) for h in found} == {((), False)}


def nothing_after_two(tokens_RT):
    allowed_RV = torch.zeros(len(tokens_RT), 6, dtype=torch.bool)
    allowed_RV[:, 3:] = tokens_RT.shape[1] < 2
    return allowed_RV


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Masks(no_repeat=0), OptionError, "no_repeat=0"),
        (lambda: Masks(repetition_penalty=0.0), OptionError, "repetition_penalty=0.0 must be above 0"),
        (lambda: Masks(forbidden=[[]]), InputError, "forbidden: a phrase of no tokens"),
        (lambda: Masks(required=[[[3], []]]), InputError, "required: a phrase of no tokens"),
        (lambda: Masks(prefix=[[3, END]]), InputError, r"prefix: \[3, 2\] has PAD, START or END"),
        (lambda: ask(Masks(prefix=[[3], [4]])), SizeError, "prefix has 2 entries for 1 sentences"),
        (
            lambda: ask(Masks(prefix=[[3, 4, 5]])),
            SentenceError,
            "sentence 0: its prefix has 3 tokens, and its answer may",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


def ask(masks):
    return Greedy(max_length=2)(TableModel(TABLE), Batch.of(None, [[0]]), masks=masks)


def test_a_dead_end_is_an_answer_in_any_batch():
    """It was lost in a batch in which all that was chosen went on."""

    def grammar(tokens_RT):
        follow = {(): [4, 5], (5,): [6, 7], (8,): [9], (8, 9): [END]}
        allowed = torch.zeros(len(tokens_RT), 10, dtype=torch.bool)
        for row, tokens in enumerate(tokens_RT.tolist()):
            allowed[row, follow.get(tuple(tokens), [])] = True
        return allowed

    model = real_model("luong", vocabulary=10)
    search = Beam(width=2, n_best=2)
    (alone,) = search(model, Batch.of(None, [[4, 5]]), masks=Masks(grammar=grammar))
    masks = Masks(grammar=grammar, prefix=[[], [8]])
    together, _ = search(model, Batch.of(None, [[4, 5], [6, 7]]), masks=masks)
    assert [h.tokens for h in alone] == [h.tokens for h in together]
    assert [4] in [h.tokens for h in alone]


def test_an_error_names_the_sentence_as_its_asker_does():
    masks = Masks(prefix=[[4] * 9, []], numbers=[1, 0])
    with pytest.raises(SentenceError, match="sentence 1: its prefix has 9"):
        Greedy(max_length=3)(real_model("luong"), Batch.of(None, [[4], [5]]), masks=masks)

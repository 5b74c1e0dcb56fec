"""What every registered search must do."""

import math

import pytest
import torch

from seqloom import Batch
from seqloom.batch import END, UNKNOWN
from seqloom.decode import Masks
from seqloom.decode.score import score
from seqloom.errors import OptionError
from seqloom.registry import build, find, options
from tests.decode.plain import batch_for, has, real_model, repeats
from tests.variants import every, label

SOURCES = [[3, 8, 4, 5], [7], [6, 6, 3]]
SEVERAL = ("n_best", "samples")
"""Options by which a search gives several answers."""
every_search = pytest.mark.parametrize("spec", every("search"), ids=label)


@pytest.fixture(scope="module", params=["bahdanau", "transformer"])
def model(request):
    """Small, in float64, with opinions: some answers end, some don't."""
    return real_model(request.param, seed=3, vocabulary=7)


def asked(spec, **more):
    """The search, asked for several answers where it has them, none longer than four tokens."""
    several = dict.fromkeys([o for o in SEVERAL if o in options(find("search", spec["name"]))], 3)
    return build("search", {**several, "max_length": 4, **spec, **more})


def found(search, model, sources=SOURCES, **more):
    return search(model, batch_for(model, sources), **more)


def facts(answers):
    """All that is comparable of the answers to a sentence."""
    return [
        (h.tokens, h.finished, *(round(x, 8) for x in (h.log_prob, h.value, *h.token_log_probs))) for h in answers
    ]


@every_search
def test_answers_are_whole_and_ranked(spec, model):
    for answers in found(asked(spec), model):
        assert answers
        for h in answers:
            assert all(END < token < 7 for token in h.tokens)
            assert len(h.token_log_probs) == len(h.tokens) + h.finished
            assert math.isfinite(h.value)
            assert all(math.isfinite(x) and x <= 0 for x in h.token_log_probs)
            assert h.log_prob == pytest.approx(sum(h.token_log_probs), abs=1e-10)
            assert h.formula
            if h.weights is not None:
                assert len(h.weights) == len(h.token_log_probs)
        ranks = [(h.finished, h.value) for h in answers]
        assert ranks == sorted(ranks, reverse=True)


@every_search
def test_the_same_question_has_the_same_answers(spec, model):
    once, again = (found(asked(spec), model) for _ in range(2))
    assert [facts(answers) for answers in once] == [facts(answers) for answers in again]


@every_search
def test_a_sentence_alone_has_the_answers_that_it_has_in_a_batch(spec, model):
    together = found(asked(spec), model)
    for source, answers in zip(SOURCES, together, strict=True):
        (alone,) = found(asked(spec), model, [source])
        assert facts(answers) == facts(alone)


@every_search
def test_log_probabilities_are_those_that_score_gives(spec, model):
    for source, answers in zip(SOURCES, found(asked(spec), model), strict=True):
        for h in answers:
            scored = score(model, Batch.of([h.tokens], [source]))  # with END, which an answer that was cut has not
            given = scored.log_probs[0, : len(h.token_log_probs)]
            torch.testing.assert_close(given, torch.tensor(h.token_log_probs, dtype=given.dtype))


@every_search
def test_lengths_are_kept(spec, model):
    for answers in found(asked(spec, min_length=2, max_length=3), model):
        for h in answers:
            assert 2 <= len(h.tokens) <= 3
            assert h.finished or len(h.tokens) == 3


@every_search
def test_unknown_can_be_left_out(spec, model):
    for answers in found(asked(spec, unknown=False), model):
        assert all(UNKNOWN not in h.tokens for h in answers)


@every_search
def test_masks_are_kept(spec, model):
    masks = Masks(prefix=[[5], [4, 6], []], forbidden=[[3], [6, 5]], no_repeat=1)
    answered = found(asked(spec), model, masks=masks)
    for prefix, answers in zip(masks.prefix, answered, strict=True):
        for h in answers:
            assert h.tokens[: len(prefix)] == list(prefix)
            rest = h.tokens[len(prefix) :]
            assert not has(rest, [3])
            assert not has(rest, [6, 5])
            assert not repeats(h.tokens, 1)


@every_search
def test_what_is_required_is_said_or_refused(spec, model):
    masks = Masks(required=[[[5]], [[4]], [[6, 3]]])
    try:
        answered = found(asked(spec), model, masks=masks)
    except OptionError:
        return
    for phrases, answers in zip(masks.required, answered, strict=True):
        assert all(has(h.tokens, phrases[0]) for h in answers if h.finished)


@every_search
def test_weights_are_given_where_they_are_asked_for(spec, model):
    with_, without = (found(asked(spec), model, weights=w) for w in (True, False))
    assert all(h.weights is not None for answers in with_ for h in answers)
    assert all(h.weights is None for answers in without for h in answers)
    assert [facts(answers) for answers in with_] == [facts(answers) for answers in without]

"""The contract of every registered search."""

import math

import pytest
import torch

from seqloom import Batch
from seqloom.batch import EOS, UNK
from seqloom.decode import TokenConstraints
from seqloom.decode.score import score
from seqloom.errors import ConfigError
from seqloom.registry import build, get_class, options
from tests.decode.reference import batch_for, has, real_model, repeats
from tests.variants import every, label

SOURCES = [[3, 8, 4, 5], [7], [6, 6, 3]]
SEVERAL = ("n_best", "samples")
"""Options with which a search returns several hypotheses."""
every_search = pytest.mark.parametrize("spec", every("search"), ids=label)


@pytest.fixture(scope="module", params=["bahdanau", "transformer"])
def model(request):
    """A small model in float64 with random weights: some hypotheses reach EOS, some don't."""
    return real_model(request.param, seed=3, vocabulary=7)


def built(spec, **more):
    """The search, with up to three hypotheses of up to four tokens."""
    several = dict.fromkeys([o for o in SEVERAL if o in options(get_class("search", spec["name"]))], 3)
    return build("search", {**several, "max_length": 4, **spec, **more})


def run(search, model, sources=SOURCES, **more):
    return search(model, batch_for(model, sources), **more)


def comparable(hypotheses):
    """Everything that can be compared of the hypotheses of a sentence."""
    return [
        (h.tokens, h.finished, *(round(x, 8) for x in (h.log_prob, h.score, *h.token_log_probs))) for h in hypotheses
    ]


@every_search
def test_hypotheses_are_complete_and_ranked(spec, model):
    for hypotheses in run(built(spec), model):
        assert hypotheses
        for h in hypotheses:
            assert all(EOS < token < 7 for token in h.tokens)
            assert len(h.token_log_probs) == len(h.tokens) + h.finished
            assert math.isfinite(h.score)
            assert all(math.isfinite(x) and x <= 0 for x in h.token_log_probs)
            assert h.log_prob == pytest.approx(sum(h.token_log_probs), abs=1e-10)
            assert h.score_formula
            if h.attention is not None:
                assert len(h.attention) == len(h.token_log_probs)
        ranks = [(h.finished, h.score) for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)


@every_search
def test_search_is_reproducible(spec, model):
    first, second = (run(built(spec), model) for _ in range(2))
    assert list(map(comparable, first)) == list(map(comparable, second))


@every_search
def test_hypotheses_do_not_depend_on_other_sentences_of_the_batch(spec, model):
    together = run(built(spec), model)
    for source, hypotheses in zip(SOURCES, together, strict=True):
        (alone,) = run(built(spec), model, [source])
        assert comparable(hypotheses) == comparable(alone)


@every_search
def test_token_log_probs_match_forced_decoding(spec, model):
    for source, hypotheses in zip(SOURCES, run(built(spec), model), strict=True):
        for h in hypotheses:
            scored = score(model, Batch.from_lists([h.tokens], [source]))  # with EOS, also if unfinished
            log_probs = scored.log_probs[0, : len(h.token_log_probs)]
            torch.testing.assert_close(log_probs, torch.tensor(h.token_log_probs, dtype=log_probs.dtype))


@every_search
def test_min_and_max_length(spec, model):
    for hypotheses in run(built(spec, min_length=2, max_length=3), model):
        for h in hypotheses:
            assert 2 <= len(h.tokens) <= 3
            assert h.finished or len(h.tokens) == 3


@every_search
def test_unk_can_be_disallowed(spec, model):
    for hypotheses in run(built(spec, allow_unk=False), model):
        assert all(UNK not in h.tokens for h in hypotheses)


@every_search
def test_prefix_forbidden_phrases_and_repeated_ngrams(spec, model):
    constraints = TokenConstraints(prefix=[[5], [4, 6], []], forbidden=[[3], [6, 5]], no_repeat_ngram_size=1)
    results = run(built(spec), model, constraints=constraints)
    for prefix, hypotheses in zip(constraints.prefix, results, strict=True):
        for h in hypotheses:
            assert h.tokens[: len(prefix)] == list(prefix)
            rest = h.tokens[len(prefix) :]
            assert not has(rest, [3])
            assert not has(rest, [6, 5])
            assert not repeats(h.tokens, 1)


@every_search
def test_required_phrases_occur_or_are_refused(spec, model):
    constraints = TokenConstraints(required=[[[5]], [[4]], [[6, 3]]])
    try:
        results = run(built(spec), model, constraints=constraints)
    except ConfigError:
        return
    for phrases, hypotheses in zip(constraints.required, results, strict=True):
        assert all(has(h.tokens, phrases[0]) for h in hypotheses if h.finished)


@every_search
def test_attention_is_returned_on_request(spec, model):
    with_attention, without = (run(built(spec), model, return_attention=r) for r in (True, False))
    assert all(h.attention is not None for hypotheses in with_attention for h in hypotheses)
    assert all(h.attention is None for hypotheses in without for h in hypotheses)
    assert list(map(comparable, with_attention)) == list(map(comparable, without))

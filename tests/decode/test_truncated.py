"""``Hypothesis.truncated``: the maximum length stopped this hypothesis, or a better one of the beam."""

import pytest
import torch

from seqloom import Batch
from seqloom.batch import BOS, EOS
from seqloom.decode import TokenConstraints
from seqloom.registry import build
from tests.decode.reference import CONTENT, TableModel, random_table

ROWWISE = ({"name": "greedy"}, {"name": "sample", "samples": 4}, {"name": "mbr", "samples": 9})
BEAMS = (
    {"name": "beam", "beam_size": 1},
    {"name": "beam", "beam_size": 5},
    {"name": "beam", "beam_size": 3, "n_best": 3},
    {"name": "beam", "beam_size": 5, "refill": True},
    {"name": "beam", "beam_size": 4, "length_penalty": "none"},
    {"name": "beam", "beam_size": 4, "length_penalty": "wu"},
    {"name": "diverse_beam", "beam_size": 4, "groups": 2},
    {"name": "stochastic_beam", "beam_size": 3},
    {"name": "exhaustive", "n_best": 2},
)
every_search = pytest.mark.parametrize("spec", [*ROWWISE, *BEAMS], ids=lambda spec: "-".join(map(str, spec.values())))


def table_for(*tokens: int) -> torch.Tensor:
    """A table for 7 steps that generates these tokens and EOS; all other tokens have a tiny probability."""
    steps = torch.full((7, 6, 6), 1e-9, dtype=torch.float64)
    for t in range(7):
        steps[t, :, tokens[t] if t < len(tokens) else EOS] = 1
    return steps / steps.sum(-1, keepdim=True)


LONG, SHORT = table_for(3, 4, 5, 4, 3, 5), table_for(5, 3)
"""Outputs of six and of two tokens."""


def found(spec, *sources: list[int], **more):
    return build("search", {**spec, **more})(TableModel(LONG, SHORT), Batch.from_lists(None, sources))


@every_search
def test_output_stopped_at_the_maximum_length_is_truncated(spec):
    """A sentence of the same batch that ends in time is not truncated."""
    (long, *_), (short, *_), (alone, *_) = [
        *found(spec, [0, 0], [1, 0], max_length=4),
        *found(spec, [0, 0], max_length=4),
    ]
    assert long.truncated
    assert alone.truncated
    assert not short.truncated
    assert (short.tokens, short.finished) == ([5, 3], True)


@every_search
def test_output_that_ends_in_time_is_not_truncated(spec):
    for (best, *_), tokens in zip(
        found(spec, [0, 0], [1, 0], max_length=6), ([3, 4, 5, 4, 3, 5], [5, 3]), strict=True
    ):
        assert best.tokens == tokens
        assert best.finished
        assert not best.truncated


def test_output_that_ends_only_because_of_the_maximum_length_is_truncated():
    """The best continuation of 3 4 5 4 is not EOS, but only EOS is allowed, so better hypotheses are lost."""
    table = table_for(3, 4, 5, 4, 3, 5)
    table[4, :, EOS] = 0.01
    ((best,),) = build("search", {"name": "beam", "beam_size": 5, "max_length": 4})(
        TableModel(table), Batch.from_lists(None, [[0]])
    )
    assert (best.tokens, best.finished, best.truncated) == ([3, 4, 5, 4], True, True)


@pytest.mark.parametrize("name", ["greedy", "beam", "diverse_beam", "sample"])
def test_dead_end_is_truncated(name):
    search = build("search", {"name": name, "max_length": 6})
    constraints = TokenConstraints(forbidden=[[token] for token in (EOS + 1, *CONTENT)], prefix=[[3, 4]])
    table = LONG.clone()
    table[..., EOS] = 0
    ((best, *_),) = search(TableModel(table), Batch.from_lists(None, [[0]]), constraints=constraints)
    assert (best.finished, best.truncated) == (False, True)


def test_output_with_required_phrases_is_truncated():
    for max_length, truncated in ((4, True), (6, False)):
        search = build("search", {"name": "beam", "beam_size": 4, "max_length": max_length})
        ((best, *_),) = search(
            TableModel(LONG), Batch.from_lists(None, [[0]]), constraints=TokenConstraints(required=[[[4]]])
        )
        assert best.truncated == truncated


@pytest.mark.parametrize(
    "spec", [{"name": "exhaustive"}, {"name": "beam", "beam_size": 1}, {"name": "beam", "beam_size": 3}]
)
def test_greater_maximum_length_changes_only_truncated_outputs(spec):
    """Log-probabilities never increase with length: if no stopped hypothesis is better, no longer one is."""
    model, batch = (
        TableModel(*(random_table(seed, sharpness=2.0) for seed in range(200))),
        Batch.from_lists(None, [[n] for n in range(200)]),
    )
    shorter, longer = (
        build("search", {**spec, "length_penalty": "none", "max_length": max_length})(model, batch)
        for max_length in (2, 5)
    )
    for (short,), (long,) in zip(shorter, longer, strict=True):
        assert short.truncated or (short.tokens, short.log_prob) == (long.tokens, long.log_prob)
    changed = [short.tokens != long.tokens for (short,), (long,) in zip(shorter, longer, strict=True)]
    assert 5 < sum(changed) <= sum(short.truncated for (short,) in shorter) < 100


def test_greedy_search_and_beam_size_1_agree():
    model, batch = (
        TableModel(*(random_table(seed) for seed in range(30))),
        Batch.from_lists(None, [[n] for n in range(30)]),
    )
    greedy, beam = (
        [h.truncated for (h,) in build("search", {**spec, "max_length": 3})(model, batch)]
        for spec in ({"name": "greedy"}, {"name": "beam", "beam_size": 1})
    )
    assert greedy == beam
    assert len(set(greedy)) == 2


def test_samples_are_truncated_individually():
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[BOS, 3] = 1
    table[3, [3, EOS]] = 0.5
    (samples,) = build("search", {"name": "sample", "samples": 20, "max_length": 2})(
        TableModel(table), Batch.from_lists(None, [[0]])
    )
    assert {h.finished for h in samples} == {True, False}
    assert all(h.truncated == (not h.finished) for h in samples)


def test_mbr_output_is_truncated_if_most_samples_are():
    """A finished sample is returned if there is one, although most samples are longer."""
    for share, truncated in ((0.9, True), (0.1, False)):
        table = torch.zeros(6, 6, dtype=torch.float64)
        table[BOS, [3, 4]] = torch.tensor([share, 1 - share], dtype=torch.float64)
        table[3, 3] = table[4, EOS] = 1
        ((best,),) = build("search", {"name": "mbr", "samples": 50, "max_length": 2})(
            TableModel(table), Batch.from_lists(None, [[0]])
        )
        assert (best.tokens, best.finished, best.truncated) == ([4], True, truncated)


def test_stochastic_beam_output_is_truncated_if_a_better_one_was_stopped():
    """By perturbed log-probabilities: EOS is not the best continuation."""
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[BOS, 3] = 1
    table[3, [3, EOS]] = 0.5
    model, batch = TableModel(table), Batch.from_lists(None, [[0]])
    for seed in range(30):
        short, full = (
            build("search", {"name": "stochastic_beam", "beam_size": 2, "seed": seed, "max_length": max_length})(
                model, batch
            )[0][0]
            for max_length in (2, 40)
        )
        assert short.truncated == (len(full.tokens) > 2)

"""What counts as truncated: an answer whose search was stopped by the maximum length while it had better in mind."""

import pytest
import torch

from seqloom import Batch
from seqloom.batch import END, START
from seqloom.decode import Masks
from seqloom.registry import build
from tests.decode.plain import CONTENT, TableModel, drawn

ROWWISE = ({"name": "greedy"}, {"name": "sample", "samples": 4}, {"name": "mbr", "samples": 9})
BEAMS = (
    {"name": "beam", "width": 1},
    {"name": "beam", "width": 5},
    {"name": "beam", "width": 3, "n_best": 3},
    {"name": "beam", "width": 5, "refill": True},
    {"name": "beam", "width": 4, "normalisation": "none"},
    {"name": "beam", "width": 4, "normalisation": "wu"},
    {"name": "diverse", "width": 4, "groups": 2},
    {"name": "stochastic", "width": 3},
    {"name": "exhaustive", "n_best": 2},
)
every_search = pytest.mark.parametrize("spec", [*ROWWISE, *BEAMS], ids=lambda spec: "-".join(map(str, spec.values())))


def spelled(*tokens: int) -> torch.Tensor:
    """A table for 7 steps that says these tokens and END; whatever else is possible, END too, but hardly."""
    steps = torch.full((7, 6, 6), 1e-9, dtype=torch.float64)
    for t in range(7):
        steps[t, :, tokens[t] if t < len(tokens) else END] = 1
    return steps / steps.sum(-1, keepdim=True)


LONG, SHORT = spelled(3, 4, 5, 4, 3, 5), spelled(5, 3)
"""Of six tokens, and of two."""


def found(spec, *sources: list[int], **more):
    return build("search", {**spec, **more})(TableModel(LONG, SHORT), Batch.of(sources=sources))


@every_search
def test_an_output_that_is_too_short_for_the_model_is_truncated(spec):
    """And only that: its neighbor, which ends in time, is not."""
    (long, *_), (short, *_), (alone, *_) = [
        *found(spec, [0, 0], [1, 0], max_length=4),
        *found(spec, [0, 0], max_length=4),
    ]
    assert long.truncated
    assert alone.truncated
    assert not short.truncated
    assert (short.tokens, short.finished) == ([5, 3], True)


@every_search
def test_nothing_is_truncated_where_all_ends_in_time(spec):
    for (best, *_), tokens in zip(
        found(spec, [0, 0], [1, 0], max_length=6), ([3, 4, 5, 4, 3, 5], [5, 3]), strict=True
    ):
        assert best.tokens == tokens
        assert best.finished
        assert not best.truncated


def test_an_answer_that_reaches_end_only_at_the_limit_is_truncated():
    """The best beginning, 3 4 5 4, would go on; only END may follow, and so much better answers are lost."""
    table = spelled(3, 4, 5, 4, 3, 5)
    table[4, :, END] = 0.01
    ((best,),) = build("search", {"name": "beam", "width": 5, "max_length": 4})(
        TableModel(table), Batch.of(sources=[[0]])
    )
    assert (best.tokens, best.finished, best.truncated) == ([3, 4, 5, 4], True, True)


@pytest.mark.parametrize("name", ["greedy", "beam", "diverse", "sample"])
def test_an_output_that_nothing_may_follow_is_truncated(name):
    search = build("search", {"name": name, "max_length": 6})
    masks = Masks(forbidden=[[token] for token in (END + 1, *CONTENT)], prefix=[[3, 4]])
    table = LONG.clone()
    table[..., END] = 0
    ((best, *_),) = search(TableModel(table), Batch.of(sources=[[0]]), masks=masks)
    assert (best.finished, best.truncated) == (False, True)


def test_an_output_with_required_words_is_truncated_too():
    for most, truncated in ((4, True), (6, False)):
        search = build("search", {"name": "beam", "width": 4, "max_length": most})
        ((best, *_),) = search(TableModel(LONG), Batch.of(sources=[[0]]), masks=Masks(required=[[[4]]]))
        assert best.truncated == truncated


@pytest.mark.parametrize("spec", [{"name": "exhaustive"}, {"name": "beam", "width": 1}, {"name": "beam", "width": 3}])
def test_a_longer_limit_finds_nothing_else_unless_the_answer_is_truncated(spec):
    """Log-probabilities never rise with the length: so where nothing that could go on was better, nothing will be."""
    model, batch = (
        TableModel(*(drawn(seed, sharpness=2.0) for seed in range(200))),
        Batch.of(sources=[[n] for n in range(200)]),
    )
    shorter, longer = (
        build("search", {**spec, "normalisation": "none", "max_length": most})(model, batch) for most in (2, 5)
    )
    for (short,), (long,) in zip(shorter, longer, strict=True):
        assert short.truncated or (short.tokens, short.log_prob) == (long.tokens, long.log_prob)
    changed = [short.tokens != long.tokens for (short,), (long,) in zip(shorter, longer, strict=True)]
    assert 5 < sum(changed) <= sum(short.truncated for (short,) in shorter) < 100


def test_greedy_search_and_a_beam_of_one_agree():
    model, batch = TableModel(*(drawn(seed) for seed in range(30))), Batch.of(sources=[[n] for n in range(30)])
    greedy, beam = (
        [h.truncated for (h,) in build("search", {**spec, "max_length": 3})(model, batch)]
        for spec in ({"name": "greedy"}, {"name": "beam", "width": 1})
    )
    assert greedy == beam
    assert len(set(greedy)) == 2


def test_samples_are_truncated_each_by_itself():
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[START, 3] = 1
    table[3, [3, END]] = 0.5
    (samples,) = build("search", {"name": "sample", "samples": 20, "max_length": 2})(
        TableModel(table), Batch.of(sources=[[0]])
    )
    assert {h.finished for h in samples} == {True, False}
    assert all(h.truncated == (not h.finished) for h in samples)


def test_minimum_bayes_risk_is_truncated_where_most_samples_are():
    """The answer is one that ended, as long as there are any; but most of what the model would say is longer."""
    for share, truncated in ((0.9, True), (0.1, False)):
        table = torch.zeros(6, 6, dtype=torch.float64)
        table[START, [3, 4]] = torch.tensor([share, 1 - share], dtype=torch.float64)
        table[3, 3] = table[4, END] = 1
        ((best,),) = build("search", {"name": "mbr", "samples": 50, "max_length": 2})(
            TableModel(table), Batch.of(sources=[[0]])
        )
        assert (best.tokens, best.finished, best.truncated) == ([4], True, truncated)


def test_the_first_draw_without_replacement_is_truncated_where_it_would_go_on():
    """By the perturbed log-probabilities: END came second, if at all."""
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[START, 3] = 1
    table[3, [3, END]] = 0.5
    model, batch = TableModel(table), Batch.of(sources=[[0]])
    for seed in range(30):
        cut, whole = (
            build("search", {"name": "stochastic", "width": 2, "seed": seed, "max_length": most})(model, batch)[0][0]
            for most in (2, 40)
        )
        assert cut.truncated == (len(whole.tokens) > 2)

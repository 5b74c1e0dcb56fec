"""Diverse beam search: against itself in plain Python."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import END
from seqloom.decode.beam import Beam
from seqloom.decode.diverse import Diverse
from tests.decode.plain import CONTENT, DIVISORS, TableModel, drawn, log_probs


def plain_diverse(table, width: int, groups: int, diversity: float, most: int) -> list[tuple[float, tuple[int, ...]]]:
    """All that finishes, as Vijayakumar et al. tell it, with lists and without early stopping: values and tokens."""
    each = width // groups
    beams: list[list[tuple[tuple[int, ...], float]]] = [[((), 0.0)] for _ in range(groups)]
    finished: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in range(groups)]
    for t in range(most + 1):
        said: list[int] = []
        for g in range(groups):
            candidates = []
            for tokens, total in beams[g]:
                options = [((*tokens, v), total + log_probs(table, (*tokens, v))[-1]) for v in (*CONTENT, END)]
                if t == most:  # END, if it is among the likeliest
                    options = [c for c in sorted(options, key=lambda c: -c[1])[:each] if c[0][-1] == END]
                candidates += options
            candidates.sort(key=lambda c: -(c[1] - diversity * said.count(c[0][-1])))
            chosen = candidates[: each - len(finished[g])]
            said += [tokens[-1] for tokens, _ in chosen]
            finished[g] += [(total / (t + 1), tokens[:-1]) for tokens, total in chosen if tokens[-1] == END]
            beams[g] = [c for c in chosen if c[0][-1] != END]
    return sorted((answer for group in finished for answer in group), reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    sharpness=st.sampled_from([0.5, 2.0]),
    sizes=st.sampled_from([(2, 2), (4, 2), (6, 3), (6, 2), (9, 3), (3, 1), (8, 1), (16, 2)]),
    n_best=st.integers(1, 16),
    diversity=st.sampled_from([0.0, 0.3, 1.0, 9.0]),
    most=st.integers(1, 6),
)
def test_it_is_what_plain_lists_give(seeds, sharpness, sizes, n_best, diversity, most):
    (width, groups), tables = sizes, [drawn(seed, sharpness=sharpness) for seed in seeds]
    n_best = min(n_best, width)
    search = Diverse(width=width, groups=groups, diversity=diversity, n_best=n_best, max_length=most)
    batch = Batch.of(None, [[number, *[5] * (number % 3)] for number in range(len(tables))])
    for found, table in zip(search(TableModel(*tables), batch), tables, strict=True):
        expected = plain_diverse(table, width, groups, diversity, most)[:n_best]
        finished = [h for h in found if h.finished]
        assert [h.value for h in finished] == pytest.approx([value for value, _ in expected], abs=1e-10)
        assert sorted(tuple(h.tokens) for h in finished) == sorted(tokens for _, tokens in expected)


@pytest.mark.parametrize("width", [4, 8, 20], ids=lambda width: f"width {width}, of 6 symbols")
@pytest.mark.parametrize("normalisation", sorted(DIVISORS))
def test_one_group_is_a_beam(normalisation, width):
    model, batch = TableModel(*map(drawn, range(8))), Batch.of(None, [[n] for n in range(8)])
    options = {"width": width, "n_best": 4, "normalisation": normalisation, "max_length": 6}
    for one, other in zip(Diverse(groups=1, **options)(model, batch), Beam(**options)(model, batch), strict=True):
        assert [(h.tokens, h.value, h.finished) for h in one] == [(h.tokens, h.value, h.finished) for h in other]


def test_more_diversity_gives_more_answers():
    model, batch = TableModel(*[drawn(n, sharpness=3.0) for n in range(20)]), Batch.of(None, [[n] for n in range(20)])
    different = {}
    for diversity in (0.0, 5.0):
        found = Diverse(width=3, groups=3, diversity=diversity, max_length=6)(model, batch)
        different[diversity] = sum(len({tuple(h.tokens) for h in one}) for one in found)
    assert different[0.0] == 20
    assert different[5.0] > 40

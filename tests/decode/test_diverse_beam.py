"""Diverse beam search: compared with a plain Python reference."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import EOS
from seqloom.decode.beam import Beam
from seqloom.decode.diverse_beam import DiverseBeam
from tests.decode.reference import CONTENT, DIVISORS, TableModel, log_probs, random_table


def reference_diverse_beam(
    table, beam_size: int, groups: int, diversity_penalty: float, max_length: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Scores and tokens of all finished hypotheses, as in Vijayakumar et al., without early stopping."""
    group_size = beam_size // groups
    beams: list[list[tuple[tuple[int, ...], float]]] = [[((), 0.0)] for _ in range(groups)]
    finished: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in range(groups)]
    for t in range(max_length + 1):
        used: list[int] = []
        for g in range(groups):
            candidates = []
            for tokens, total in beams[g]:
                options = [((*tokens, v), total + log_probs(table, (*tokens, v))[-1]) for v in (*CONTENT, EOS)]
                if t == max_length:  # EOS, if it is among the most likely tokens
                    options = [c for c in sorted(options, key=lambda c: -c[1])[:group_size] if c[0][-1] == EOS]
                candidates += options
            candidates.sort(key=lambda c: -(c[1] - diversity_penalty * used.count(c[0][-1])))
            chosen = candidates[: group_size - len(finished[g])]
            used += [tokens[-1] for tokens, _ in chosen]
            finished[g] += [(total / (t + 1), tokens[:-1]) for tokens, total in chosen if tokens[-1] == EOS]
            beams[g] = [c for c in chosen if c[0][-1] != EOS]
    return sorted((h for group in finished for h in group), reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    sharpness=st.sampled_from([0.5, 2.0]),
    sizes=st.sampled_from([(2, 2), (4, 2), (6, 3), (6, 2), (9, 3), (3, 1), (8, 1), (16, 2)]),
    n_best=st.integers(1, 16),
    diversity_penalty=st.sampled_from([0.0, 0.3, 1.0, 9.0]),
    max_length=st.integers(1, 6),
)
def test_diverse_beam_search_equals_reference(seeds, sharpness, sizes, n_best, diversity_penalty, max_length):
    (beam_size, groups), tables = sizes, [random_table(seed, sharpness=sharpness) for seed in seeds]
    n_best = min(n_best, beam_size)
    search = DiverseBeam(
        beam_size=beam_size, groups=groups, diversity_penalty=diversity_penalty, n_best=n_best, max_length=max_length
    )
    batch = Batch.from_lists(None, [[number, *[5] * (number % 3)] for number in range(len(tables))])
    for found, table in zip(search(TableModel(*tables), batch), tables, strict=True):
        expected = reference_diverse_beam(table, beam_size, groups, diversity_penalty, max_length)[:n_best]
        finished = [h for h in found if h.finished]
        assert [h.score for h in finished] == pytest.approx([score for score, _ in expected], abs=1e-10)
        assert sorted(tuple(h.tokens) for h in finished) == sorted(tokens for _, tokens in expected)


@pytest.mark.parametrize("beam_size", [4, 8, 20], ids=lambda beam_size: f"beam size {beam_size}, 6 tokens")
@pytest.mark.parametrize("length_penalty", sorted(DIVISORS))
def test_one_group_equals_beam_search(length_penalty, beam_size):
    model, batch = TableModel(*map(random_table, range(8))), Batch.from_lists(None, [[n] for n in range(8)])
    options = {"beam_size": beam_size, "n_best": 4, "length_penalty": length_penalty, "max_length": 6}
    for one, other in zip(DiverseBeam(groups=1, **options)(model, batch), Beam(**options)(model, batch), strict=True):
        assert [(h.tokens, h.score, h.finished) for h in one] == [(h.tokens, h.score, h.finished) for h in other]


def test_diversity_penalty_gives_more_distinct_hypotheses():
    model, batch = (
        TableModel(*[random_table(n, sharpness=3.0) for n in range(20)]),
        Batch.from_lists(None, [[n] for n in range(20)]),
    )
    distinct = {}
    for diversity_penalty in (0.0, 5.0):
        found = DiverseBeam(beam_size=3, groups=3, diversity_penalty=diversity_penalty, max_length=6)(model, batch)
        distinct[diversity_penalty] = sum(len({tuple(h.tokens) for h in one}) for one in found)
    assert distinct[0.0] == 20
    assert distinct[5.0] > 40

"""Stochastic beam search: samples without replacement."""

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import EOS
from seqloom.decode import TokenConstraints
from seqloom.decode.stochastic_beam import StochasticBeam, conditioned
from tests.decode.reference import CONTENT, TableModel, log_probs, random_table
from tests.decode.test_sample import chi_square_p_value

SEEDS = 1000


def short_table(seed: int) -> torch.Tensor:
    """A table whose hypotheses have at most two tokens: p(EOS) = 1 after these."""
    table = random_table(seed, sharpness=1.2)
    table[..., :2] = 0
    table[2:] = 0
    table[2:, :, EOS] = 1
    return table / table.sum(-1, keepdim=True)


def probabilities(table, allowed=lambda y: True) -> dict[tuple[int, ...], float]:
    """Probabilities of all allowed hypotheses."""
    strings = [y for n in range(3) for y in itertools.product(CONTENT, repeat=n) if allowed(y)]
    log_p = {y: sum(log_probs(table, (*y, EOS))) for y in strings}
    return {y: math.exp(x) for y, x in log_p.items()}


def draws(table, beam_size: int, constraints: TokenConstraints | None = None) -> list[list[tuple[int, ...]]]:
    """Samples with many seeds, best first."""
    model, batch = TableModel(table), Batch.from_lists(None, [[0]])
    found = (
        StochasticBeam(beam_size=beam_size, seed=seed)(model, batch, constraints=constraints)[0]
        for seed in range(SEEDS)
    )
    return [[tuple(h.tokens) for h in one] for one in found]


def test_samples_are_without_replacement():
    """Each is a sample from the remaining hypotheses: P(i, then j) = p_i · p_j / (1 − p_i)."""
    p = probabilities(short_table(5))
    assert sum(p.values()) == pytest.approx(1)
    samples = draws(short_table(5), 3)
    assert all(len(set(one)) == 3 for one in samples)
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) for i in p for j in p if i != j}
    assert chi_square_p_value(Counter((i, j) for i, j, _ in samples), pairs) > 0.001
    triples = {
        (i, j, k): p_ij * p[k] / (1 - p[i] - p[j]) for (i, j), p_ij in pairs.items() for k in p if k not in (i, j)
    }
    for y in p:  # the frequency of a hypothesis among the three, within four standard deviations
        inclusion = sum(x for names, x in triples.items() if y in names)
        frequency = sum(y in one for one in samples) / SEEDS
        assert frequency == pytest.approx(inclusion, abs=4 * (inclusion * (1 - inclusion) / SEEDS) ** 0.5 + 1e-9)


def test_forbidden_tokens_get_no_probability():
    """Without b, the samples follow the model renormalized over the other tokens."""
    table = short_table(6)
    without = table.clone()
    without[..., 4] = 0
    p = probabilities(without / without.sum(-1, keepdim=True), lambda y: 4 not in y)
    assert sum(p.values()) == pytest.approx(1)
    first_two = [tuple(one[:2]) for one in draws(table, 2, TokenConstraints(forbidden=[[4]]))]
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) for i in p for j in p if i != j}
    assert chi_square_p_value(Counter(first_two), pairs) > 0.001


def test_large_beam_finds_all_hypotheses_in_order():
    table = short_table(1)
    (found,) = StochasticBeam(beam_size=50)(TableModel(table), Batch.from_lists(None, [[0]]))
    assert sorted(tuple(h.tokens) for h in found) == sorted(probabilities(table))
    assert found[0].score == pytest.approx(0)
    scores = [h.score for h in found]
    assert scores == sorted(scores, reverse=True)
    for h in found:
        assert h.finished
        assert h.log_prob == pytest.approx(sum(log_probs(table, (*h.tokens, EOS))), abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=2, max_size=6),
    beam_size=st.integers(1, 7),
    max_length=st.integers(1, 9),
    seed=st.integers(0, 100),
)
def test_samples_are_independent_of_the_batch(seeds, beam_size, max_length, seed):
    model = TableModel(*map(random_table, seeds))
    search = StochasticBeam(beam_size=beam_size, seed=seed, max_length=max_length)
    together = search(model, Batch.from_lists(None, [[n] for n in range(len(seeds))]))
    for n, found in enumerate(together):
        (alone,) = search(model, Batch.from_lists(None, [[n]]))
        assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-10)
        finished = [tuple(h.tokens) for h in found if h.finished]
        assert len(set(finished)) == len(finished)


def test_conditioned_equals_its_formula():
    g = torch.randn(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    maximum = torch.tensor([[0.3], [-1.0], [2.0], [0.0]], dtype=torch.float64)
    expected = -((-maximum).exp() - (-g.amax(1, keepdim=True)).exp() + (-g).exp()).log()
    torch.testing.assert_close(conditioned(g, maximum), expected)
    huge = conditioned(g * 1000, maximum)
    assert torch.equal(huge.amax(1), maximum[:, 0])
    assert bool((huge.gather(1, g.argsort(1)).diff(dim=1) >= 0).all())
    g[0, 2], g[1] = -torch.inf, -torch.inf
    assert (conditioned(g, maximum) == -torch.inf).nonzero().tolist() == [[0, 2], *([1, v] for v in range(7))]

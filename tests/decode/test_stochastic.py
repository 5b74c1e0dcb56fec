"""Stochastic beam search: samples without replacement."""

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch
from seqloom.batch import END
from seqloom.decode import Masks
from seqloom.decode.stochastic import Stochastic, conditioned
from tests.decode.plain import CONTENT, TableModel, drawn, log_probs
from tests.decode.test_sample import chance

SEEDS = 1000


def all_end(seed: int) -> torch.Tensor:
    """A table whose answers have at most two tokens: after these END is certain."""
    table = drawn(seed, sharpness=1.2)
    table[..., :2] = 0
    table[2:] = 0
    table[2:, :, END] = 1
    return table / table.sum(-1, keepdim=True)


def probabilities(table, allowed=lambda y: True) -> dict[tuple[int, ...], float]:
    """Of all answers, every step's being made to add up over what is allowed."""
    strings = [y for n in range(3) for y in itertools.product(CONTENT, repeat=n) if allowed(y)]
    log_p = {y: sum(log_probs(table, (*y, END))) for y in strings}
    return {y: math.exp(x) for y, x in log_p.items()}


def draws(table, width: int, masks: Masks | None = None) -> list[list[tuple[int, ...]]]:
    """What many seeds give, best first."""
    model, batch = TableModel(table), Batch.of(None, [[0]])
    found = (Stochastic(width=width, seed=seed)(model, batch, masks=masks)[0] for seed in range(SEEDS))
    return [[tuple(h.tokens) for h in one] for one in found]


def test_they_are_drawn_without_replacement():
    """The k-th is a sample of what the others before it left: P(i, then j) = p_i · p_j / (1 − p_i)."""
    p = probabilities(all_end(5))
    assert sum(p.values()) == pytest.approx(1)
    drawn_in_order = draws(all_end(5), 3)
    assert all(len(set(one)) == 3 for one in drawn_in_order)
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) for i in p for j in p if i != j}
    assert chance(Counter((i, j) for i, j, _ in drawn_in_order), pairs) > 0.001
    triples = {
        (i, j, k): p_ij * p[k] / (1 - p[i] - p[j]) for (i, j), p_ij in pairs.items() for k in p if k not in (i, j)
    }
    for y in p:  # how often an answer is among the three: within four standard deviations
        inclusion = sum(x for names, x in triples.items() if y in names)
        seen = sum(y in one for one in drawn_in_order) / SEEDS
        assert seen == pytest.approx(inclusion, abs=4 * (inclusion * (1 - inclusion) / SEEDS) ** 0.5 + 1e-9)


def test_what_is_forbidden_has_no_share():
    """Without b, the first is a sample of the model whose steps add up without b."""
    table = all_end(6)
    without = table.clone()
    without[..., 4] = 0
    p = probabilities(without / without.sum(-1, keepdim=True), lambda y: 4 not in y)
    assert sum(p.values()) == pytest.approx(1)
    first_two = [tuple(one[:2]) for one in draws(table, 2, Masks(forbidden=[[4]]))]
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) for i in p for j in p if i != j}
    assert chance(Counter(first_two), pairs) > 0.001


def test_a_wide_one_finds_all_there_are_in_order():
    table = all_end(1)
    (found,) = Stochastic(width=50)(TableModel(table), Batch.of(None, [[0]]))
    assert sorted(tuple(h.tokens) for h in found) == sorted(probabilities(table))
    assert found[0].value == pytest.approx(0)
    values = [h.value for h in found]
    assert values == sorted(values, reverse=True)
    for h in found:
        assert h.finished
        assert h.log_prob == pytest.approx(sum(log_probs(table, (*h.tokens, END))), abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=2, max_size=6),
    width=st.integers(1, 7),
    most=st.integers(1, 9),
    seed=st.integers(0, 100),
)
def test_in_a_batch_as_alone(seeds, width, most, seed):
    model = TableModel(*map(drawn, seeds))
    search = Stochastic(width=width, seed=seed, max_length=most)
    together = search(model, Batch.of(None, [[n] for n in range(len(seeds))]))
    for n, found in enumerate(together):
        (alone,) = search(model, Batch.of(None, [[n]]))
        assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in alone]
        assert [h.value for h in found] == pytest.approx([h.value for h in alone], abs=1e-10)
        finished = [tuple(h.tokens) for h in found if h.finished]
        assert len(set(finished)) == len(finished)


def test_conditioned_is_its_formula():
    g = torch.randn(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    most = torch.tensor([[0.3], [-1.0], [2.0], [0.0]], dtype=torch.float64)
    plain = -((-most).exp() - (-g.amax(1, keepdim=True)).exp() + (-g).exp()).log()
    torch.testing.assert_close(conditioned(g, most), plain)
    huge = conditioned(g * 1000, most)
    assert torch.equal(huge.amax(1), most[:, 0])
    assert bool((huge.gather(1, g.argsort(1)).diff(dim=1) >= 0).all())
    g[0, 2], g[1] = -torch.inf, -torch.inf
    assert (conditioned(g, most) == -torch.inf).nonzero().tolist() == [[0, 2], *([1, v] for v in range(7))]

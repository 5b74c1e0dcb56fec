"""Every score against its formula in plain numpy."""

import math

import numpy as np
import pytest
import torch

from seqloom.errors import OptionError, SizeError
from seqloom.registry import build, parts
from tests.nn.helpers import array, assert_equal, gradients, label, rand, shaken

Q, B, T, S = 4, 2, 3, 5

SCORES = {
    "dot": [{}],
    "scaled_dot": [{"by": "root"}, {"by": "size"}],
    "bilinear": [{}],
    "additive": [{}, {"size": 3}],
    "rbf": [{}, {"gamma": 0.7}, {"gamma": 1.3, "learned": False}],
    "position": [{"size": 6}],
}
CASES = [{"name": name, **options} for name in parts("score") for options in SCORES.get(name, [{}])]
every_score = pytest.mark.parametrize("spec", CASES, ids=label)


def address(t, size):
    """The sinusoids of one position, by the formula."""
    return np.array([(math.cos if i % 2 else math.sin)(t / 10000 ** ((i - i % 2) / size)) for i in range(size)])


def additive(score, q, k, t, s):
    W = np.concatenate((array(score.query.weight), array(score.key.weight)), 1)
    return array(score.v) @ np.tanh(W @ np.concatenate((q, k)) + array(score.query.bias))


def position(score, q, k, t, s):
    size = len(score.weight)
    return address(t, size) @ array(score.weight) @ address(s, size) / math.sqrt(size)


FORMULAS = {
    "dot": lambda score, q, k, t, s: q @ k,
    "scaled_dot": None,  # by the option, below
    "bilinear": lambda score, q, k, t, s: q @ array(score.weight) @ k,
    "additive": additive,
    "rbf": lambda score, q, k, t, s: -np.exp(array(score.log_gamma)) * np.sum((q - k) ** 2),
    "position": position,
}


def formula(spec):
    if spec["name"] not in FORMULAS:
        pytest.fail(f"score {spec['name']!r} has no numpy formula: add it to FORMULAS here")
    if spec["name"] == "scaled_dot":
        return lambda score, q, k, t, s: q @ k / (math.sqrt(len(q)) if spec["by"] == "root" else len(q))
    return FORMULAS[spec["name"]]


def made(spec, key_size=Q):
    torch.manual_seed(1)
    score = shaken(build("score", spec, Q, key_size))
    return score, rand(B, T, Q), rand(B, S, key_size)


def scored(score, queries, keys, position_BT=None):
    return score(queries, score.prepare(keys), position_BT)


def expected(spec, score, queries, keys, first=0):
    f = formula(spec)
    q, k = array(queries), array(keys)
    return torch.tensor(
        [[[float(f(score, q[b, t], k[b, s], first + t, s)) for s in range(S)] for t in range(T)] for b in range(B)],
        dtype=torch.float64,
    )


@every_score
def test_a_score_is_its_formula(spec):
    score, queries, keys = made(spec)
    assert_equal(scored(score, queries, keys), expected(spec, score, queries, keys))


@pytest.mark.parametrize("name", ["additive", "bilinear"])
def test_scores_of_any_two_sizes(name):
    score, queries, keys = made({"name": name}, key_size=3)
    assert_equal(scored(score, queries, keys), expected({"name": name}, score, queries, keys))


@every_score
def test_a_prepared_key_serves_every_query_alone(spec):
    """Keys are prepared once; a step asks with one query, or several."""
    score, queries, keys = made(spec)
    prepared = score.prepare(keys)
    whole = score(queries, prepared)
    for t in range(T):
        step = score(queries[:, t : t + 1], prepared, torch.full((B, 1), t))
        assert_equal(step, whole[:, t : t + 1])
    assert_equal(score.prepare(keys[:, 1:3]), prepared[:, 1:3])


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_rbf_of_unit_vectors_is_the_dot_product_times_2γ(gamma):
    rbf, queries, keys = made({"name": "rbf", "gamma": gamma, "learned": False})
    queries, keys = (x / x.norm(dim=-1, keepdim=True) for x in (queries, keys))
    difference = scored(rbf, queries, keys) - 2 * gamma * queries @ keys.mT
    assert_equal(difference, torch.full_like(difference, -2 * gamma), 1e-6)
    weights = torch.softmax(scored(rbf, queries, keys), -1)
    assert_equal(weights, torch.softmax(2 * gamma * queries @ keys.mT, -1), 1e-6)


def test_rbf_by_default_is_the_scaled_dot_product_of_unit_vectors():
    rbf, scaled = build("score", "rbf", Q, Q).double(), build("score", "scaled_dot", Q, Q)
    queries, keys = (x / x.norm(dim=-1, keepdim=True) for x in (rand(B, T, Q), rand(B, S, Q)))
    weights = torch.softmax(scored(rbf, queries, keys), -1)
    assert_equal(weights, torch.softmax(scored(scaled, queries, keys), -1), 1e-6)


def test_γ_is_learned_or_kept():
    learned = build("score", {"name": "rbf", "gamma": 0.7}, Q, Q)
    kept = build("score", {"name": "rbf", "gamma": 0.7, "learned": False}, Q, Q)
    assert [p.exp().item() for p in learned.parameters()] == [pytest.approx(0.7)]
    assert not list(kept.parameters())
    queries, keys = rand(B, T, Q, dtype=torch.float32), rand(B, S, Q, dtype=torch.float32)
    assert_equal(scored(learned, queries, keys), scored(kept, queries, keys), 0)
    assert gradients(scored(learned, queries, keys), learned.parameters())[0].abs() > 0
    with torch.no_grad():
        learned.log_gamma -= 100  # however far it is pushed, it stays positive
    assert (scored(learned, queries, keys) < 0).all()
    assert kept.state_dict(), "a γ that is kept is saved with the model"


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_γ_must_be_positive(gamma):
    with pytest.raises(OptionError, match="gamma"):
        build("score", {"name": "rbf", "gamma": gamma}, Q, Q)


def test_rbf_of_equals_is_exactly_zero():
    rbf, _, keys = made({"name": "rbf"})
    for dtype in (torch.float32, torch.float64):
        own = scored(rbf.to(dtype), keys.to(dtype) * 1e3, keys.to(dtype) * 1e3).diagonal(dim1=1, dim2=2)
        assert (own == 0).all()


def test_position_depends_on_positions_alone():
    spec = {"name": "position", "size": 6}
    score, queries, keys = made(spec)
    result = scored(score, queries, keys)
    assert_equal(scored(score, rand(B, T, Q), rand(B, S, Q)), result, 0)
    assert not any(g.any() for g in gradients(result, [queries, keys]))
    assert gradients(result, score.parameters())[0].any()


def test_position_counts_from_where_it_is_told():
    spec = {"name": "position", "size": 6}
    score, queries, keys = made(spec)
    later = scored(score, queries, keys, torch.arange(7, 7 + T).expand(B, T))
    assert_equal(later, expected(spec, score, queries, keys, first=7))


def test_position_looks_straight_across_at_first():
    score = build("score", "position", Q, Q).double()
    assert scored(score, rand(1, 9, Q), rand(1, 9, Q)).argmax(-1).tolist() == [list(range(9))]


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "rbf"])
def test_scores_of_one_size_say_how_to_get_there(name):
    with pytest.raises(SizeError, match=rf"'{name}'.*size 4.*size 3.*key_layers: 1.*'bilinear' or 'additive'"):
        build("score", name, 4, 3)


@pytest.mark.parametrize("name", ["additive", "bilinear"])
def test_initial_weights_are_glorot_for_the_one_matrix(name):
    torch.manual_seed(2)
    score = build("score", name, 30, 20)
    weights = [score.query.weight, score.key.weight] if name == "additive" else [score.weight]
    bound = math.sqrt(6 / (50 if name == "bilinear" else 80))
    for weight in weights:
        assert 0.9 * bound < weight.abs().max() <= bound

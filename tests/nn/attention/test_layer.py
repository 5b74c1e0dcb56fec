"""Attention as a layer: contexts, gradients, learned keys and queries, and what it refuses."""

import numpy as np
import pytest
import torch

from seqloom.errors import InputError, OptionError, SizeError, UnknownNameError
from seqloom.nn.attention import Attention
from seqloom.registry import find, parts
from tests.nn.helpers import Recorder, array, assert_equal, gradcheck, gradients, rand, shaken

Q, K, V, B, T, S = 4, 3, 2, 2, 3, 5
MASK = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1]]).bool()
PAIRS = [
    (score, normaliser)
    for score in parts("score")
    for normaliser in parts("normaliser")
    if find("normaliser", normaliser).scores is None or score in find("normaliser", normaliser).scores
]
REFUSED = [(s, n) for s in parts("score") for n in parts("normaliser") if (s, n) not in PAIRS]
every_pair = pytest.mark.parametrize(("score", "normaliser"), PAIRS)


def made(score, normaliser="softmax", **options):
    torch.manual_seed(1)
    return shaken(Attention(Q, Q, score=score, normaliser=normaliser, **options))


def given():
    """Values, keys, queries; the last query of each row is its last key, so that ``exact`` finds something."""
    values, keys, queries = rand(B, S, V), rand(B, S, Q), rand(B, T, Q)
    queries.data[:, -1] = keys.data[:, 2]
    return values, keys, queries


@every_pair
@pytest.mark.parametrize("mask", [None, MASK, torch.stack([MASK, MASK.flip(1), ~MASK | MASK], 1)], ids=str)
def test_context_is_the_values_by_their_weights(score, normaliser, mask):
    attention = made(score, normaliser)
    values, keys, queries = given()
    context, weights = attention(values, keys, queries, mask)
    scores = attention.score(queries, attention.score.prepare(keys))
    mask_BTS = mask if mask is None or mask.dim() == 3 else mask[:, None].expand(-1, T, -1)
    alike = slice(1) if attention.carrying else slice(None)  # with a past, only the first query has none yet
    assert_equal(weights[:, alike], attention.normaliser(scores, mask_BTS)[:, alike])
    assert_equal(context, torch.einsum("bts,bsv->btv", weights, values))
    assert context.shape == (B, T, V)
    if mask_BTS is not None:
        assert not weights[~mask_BTS].any()
    if attention.normaliser.complete:
        assert_equal(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))


@every_pair
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "masked"])
def test_gradients(score, normaliser, mask):
    attention, (values, keys, queries) = made(score, normaliser), given()
    if attention.normaliser.differentiable:
        apart = rand(B, T, Q)  # at the distance 0 itself, differences are not what they are nearby
        assert gradcheck(lambda v, k, q: attention(v, k, q, mask), values, keys, apart, module=attention)
    else:
        gradcheck_values = torch.autograd.gradcheck(lambda v: attention(v, keys, queries, mask)[0], (values,))
        assert gradcheck_values


@every_pair
def test_which_gradients_there_are(score, normaliser):
    attention, (values, keys, queries) = made(score, normaliser), given()
    context, _ = attention(values, keys, queries)
    to_values, to_keys, to_queries = gradients(context, (values, keys, queries))
    assert to_values.any()
    learns = attention.normaliser.differentiable
    sees = not attention.score.static
    assert bool(to_keys.any()) == (learns and sees)
    assert bool(to_queries.any()) == (learns and sees)
    assert all(bool(g.any()) == learns for g in gradients(context, attention.parameters()))


@pytest.mark.parametrize("normaliser", parts("normaliser"))
def test_inert_parameters_are_those_without_gradient(normaliser):
    options = {"key_layers": 1, "query_layers": 1, "key_activation": "tanh", "query_activation": "tanh"}
    attention, (values, keys, queries) = made("rbf", normaliser, **options), given()
    found = gradients(attention(values, keys, queries)[0], attention.parameters())
    for (name, _), gradient in zip(attention.named_parameters(), found, strict=True):
        assert bool(gradient.any()) != name.startswith(tuple(attention.inert())), name


def test_exact_is_a_hash_table():
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]])
    values = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    queries = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1e-6], [2.0, 2.0]]])
    table = Attention(2, 2, score="rbf", normaliser="exact")
    context, weights = table(values, keys, queries)
    assert context.flatten().tolist() == [3, 2, 0, 4]  # of equal keys the last; no such key: nothing
    assert weights[0, 0].tolist() == [0, 0, 1, 0]
    mask = torch.tensor([[True, True, False, False]])
    assert table(values, keys, queries, mask)[0].flatten().tolist() == [1, 2, 0, 0]


@pytest.mark.parametrize(("score", "normaliser"), REFUSED)
def test_normalisers_refuse_scores_that_mean_nothing_to_them(score, normaliser):
    with pytest.raises(OptionError, match=f"'{normaliser}'.*rbf.*'{score}'"):
        Attention(Q, Q, score=score, normaliser=normaliser)


def test_closest_takes_the_nearest():
    keys = torch.tensor([[[0.0], [1.0], [5.0]]])
    values = torch.tensor([[[10.0], [20.0], [30.0]]])
    attention = Attention(1, 1, score="rbf", normaliser="closest")
    context, _ = attention(values, keys, torch.tensor([[[0.4], [0.6], [100.0]]]))
    assert context.flatten().tolist() == [10, 20, 30]


NUMPY = {None: lambda x: x, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: x * (x > 0)}


def perceptron(layers, activation, x):
    """σ(W x + b) layer by layer; without σ there is no b."""
    linears = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    for linear in linears:
        assert (linear.bias is None) == (activation is None)
        x = x @ array(linear.weight).T + (0 if linear.bias is None else array(linear.bias))
        x = NUMPY[activation](x)
    return x, len(linears)


@pytest.mark.parametrize("key_activation", [None, "tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("query_activation", [None, "tanh"])
@pytest.mark.parametrize(("key_layers", "query_layers"), [(1, 1), (2, 1), (1, 3)])
def test_keys_and_queries_by_learned_layers(key_activation, query_activation, key_layers, query_layers):
    torch.manual_seed(2)
    options = {"key_activation": key_activation, "query_activation": query_activation}
    attention = shaken(
        Attention(Q, K, score="dot", key_layers=key_layers, query_layers=query_layers, size=6, **options)
    )
    values, keys, queries = rand(B, S, V), rand(B, S, K), rand(B, T, Q)
    k, n_k = perceptron(attention.key_layers, key_activation, array(keys))
    q, n_q = perceptron(attention.query_layers, query_activation, array(queries))
    assert (n_k, n_q) == (key_layers, query_layers)
    assert q.shape[-1] == k.shape[-1] == 6
    _, weights = attention(values, keys, queries)
    powers = np.exp(q @ np.swapaxes(k, 1, 2))
    np.testing.assert_allclose(array(weights), powers / powers.sum(-1, keepdims=True), rtol=0, atol=1e-10)
    assert gradcheck(lambda v, k, q: attention(v, k, q), values, keys, queries, module=attention)


@pytest.mark.parametrize("side", ["key", "query"])
def test_layers_on_one_side_only(side):
    """By default such layers are as wide as the query, so keys of another size fit it."""
    torch.manual_seed(3)
    attention = shaken(Attention(Q, K if side == "key" else Q, score="dot", **{f"{side}_layers": 1}))
    values, keys, queries = rand(B, S, V), rand(B, S, attention.sizes[1]), rand(B, T, Q)
    W = (attention.key_layers if side == "key" else attention.query_layers)[0].weight
    scores = queries @ (keys @ W.t()).mT if side == "key" else (queries @ W.t()) @ keys.mT
    assert_equal(attention(values, keys, queries)[1], torch.softmax(scores, -1))


@every_pair
def test_queries_and_rows_are_independent(score, normaliser):
    attention, (values, keys, queries) = made(score, normaliser), given()
    context, weights = attention(values, keys, queries, MASK)
    alone = [attention(values[b : b + 1], keys[b : b + 1], queries[b : b + 1], MASK[b : b + 1]) for b in range(B)]
    assert_equal((context, weights), [torch.cat(x) for x in zip(*alone, strict=True)])
    real = MASK[0]
    if score != "position":  # a row without its holes: positions would move
        short = attention(values[:1, real], keys[:1, real], queries[:1])
        assert_equal(context[:1], short[0])
    prepared = attention.prepare(keys)
    past = {name: start[:, None] for name, start in attention.initial(prepared).items()}
    for t in range(T):
        step = attention.weigh(queries[:, t : t + 1], prepared, MASK, position_BT=torch.full((B, 1), t), past=past)
        past = attention.update(past, step)
        assert_equal(step, weights[:, t : t + 1])


@every_pair
def test_a_query_with_nothing_to_see_gets_a_zero_context(score, normaliser):
    attention, (values, keys, queries) = made(score, normaliser), given()
    seen = torch.ones(B, T, S, dtype=torch.bool)
    seen[0, 1] = False
    weights = attention.weigh(queries, attention.prepare(keys), seen)
    context = weights @ values
    assert not context[0, 1].any()
    assert not weights[0, 1].any()
    found = gradients(context, [values, keys, queries])
    assert all(g.isfinite().all() for g in found)


@every_pair
def test_a_probe_sees_the_weights_and_may_replace_them(score, normaliser):
    attention, (values, keys, queries) = made(score, normaliser), given()
    probe = Recorder()
    context, weights = attention(values, keys, queries, MASK, probe=probe)
    names = [f"attention[{t}]" for t in range(T)] if attention.carrying else ["attention"]
    assert list(probe.seen) == names
    assert_equal(torch.cat([probe.seen[name] for name in names], 1), weights, 0)
    assert_equal((context, weights), attention(values, keys, queries, MASK), 0)
    third = torch.nn.functional.one_hot(torch.tensor(2), S).double()
    context, _ = attention(values, keys, queries, probe=Recorder(attention=third))
    assert_equal(context, values[:, 2:3].expand(-1, T, -1))


@every_pair
def test_nothing_of_a_call_stays_on_the_module(score, normaliser):
    attention, (values, keys, queries) = made(score, normaliser), given()
    before = {id(m): set(vars(m)) for m in attention.modules()}
    attention(values, keys, queries)
    assert {id(m): set(vars(m)) for m in attention.modules()} == before


def test_sizes_that_do_not_fit():
    attention = Attention(Q, K)
    x = torch.zeros
    with pytest.raises(SizeError, match=r"\(4, 3\).*\(5, 3\)"):
        attention(x(B, S, V), x(B, S, K), x(B, T, 5))
    with pytest.raises(SizeError, match=r"\(4, 3\).*\(4, 4\)"):
        attention(x(B, S, V), x(B, S, 4), x(B, T, Q))
    with pytest.raises(SizeError, match="every value needs a key"):
        attention(x(B, S + 1, V), x(B, S, K), x(B, T, Q))
    with pytest.raises(SizeError, match="every value needs a key"):
        attention(x(B + 1, S, V), x(B, S, K), x(B, T, Q))


@pytest.mark.parametrize("shape", [(B, S + 1), (B + 1, S), (B, T + 1, S), (S,)])
def test_a_mask_that_does_not_fit(shape):
    with pytest.raises(SizeError, match="mask"):
        Attention(Q, K)(torch.zeros(B, S, V), torch.zeros(B, S, K), torch.zeros(B, T, Q), torch.ones(shape).bool())


def test_a_mask_with_a_row_of_nothing():
    mask = MASK.clone()
    mask[1] = False
    with pytest.raises(InputError, match="row 1"):
        Attention(Q, K)(torch.zeros(B, S, V), torch.zeros(B, S, K), torch.zeros(B, T, Q), mask)
    with pytest.raises(InputError, match="no step"):
        Attention(Q, K)(torch.zeros(B, 0, V), torch.zeros(B, 0, K), torch.zeros(B, T, Q), mask[:, :0])


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="unknown score 'aditive'; did you mean 'additive'"):
        Attention(Q, K, score="aditive")
    with pytest.raises(UnknownNameError, match="did you mean 'softmax'"):
        Attention(Q, K, normaliser="softmx")
    with pytest.raises(UnknownNameError, match="did you mean 'gamma'"):
        Attention(Q, Q, score={"name": "rbf", "gama": 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "there are none"),
        ({"key_activation": "tanh"}, "key_layers"),
        ({"query_activation": "tanh"}, "query_layers"),
        ({"score": "position", "key_layers": 1}, "reads no key or query"),
        ({"score": "position", "query_layers": 1}, "reads no key or query"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(OptionError, match=message):
        Attention(Q, Q, **options)

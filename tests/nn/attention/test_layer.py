"""The attention layer: contexts, gradients, key and query layers, and errors."""

import numpy as np
import pytest
import torch

from seqloom.errors import ConfigError, InputError, ShapeError, UnknownNameError
from seqloom.nn.attention import Attention
from seqloom.registry import get_class, parts
from tests.nn.helpers import RecordingProbe, assert_equal, gradcheck, gradients, rand, randomize_parameters, to_numpy

Q, K, V, B, T, S = 4, 3, 2, 2, 3, 5
MASK = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1]]).bool()
PAIRS = [
    (score, normalizer)
    for score in parts("score")
    for normalizer in parts("normalizer")
    if get_class("normalizer", normalizer).compatible_scores is None
    or score in get_class("normalizer", normalizer).compatible_scores
]
INCOMPATIBLE = [(s, n) for s in parts("score") for n in parts("normalizer") if (s, n) not in PAIRS]
every_pair = pytest.mark.parametrize(("score", "normalizer"), PAIRS)


def make_attention(score, normalizer="softmax", **options):
    torch.manual_seed(1)
    return randomize_parameters(Attention(Q, Q, score=score, normalizer=normalizer, **options))


def make_inputs():
    """Values, keys, queries; the last query of each row is its last key, so that ``lookup`` finds it."""
    values, keys, queries = rand(B, S, V), rand(B, S, Q), rand(B, T, Q)
    queries.data[:, -1] = keys.data[:, 2]
    return values, keys, queries


@every_pair
@pytest.mark.parametrize("mask", [None, MASK, torch.stack([MASK, MASK.flip(1), ~MASK | MASK], 1)], ids=str)
def test_context_is_the_weighted_sum_of_values(score, normalizer, mask):
    attention = make_attention(score, normalizer)
    values, keys, queries = make_inputs()
    context, weights = attention(values, keys, queries, mask)
    scores = attention.score(queries, attention.score.project_keys(keys))
    mask_BTS = mask if mask is None or mask.dim() == 3 else mask[:, None].expand(-1, T, -1)
    stateless = slice(1) if attention.stateful_parts else slice(None)  # only the first query of a target has no state
    assert_equal(weights[:, stateless], attention.normalizer(scores, mask_BTS)[:, stateless])
    assert_equal(context, torch.einsum("bts,bsv->btv", weights, values))
    assert context.shape == (B, T, V)
    if mask_BTS is not None:
        assert not weights[~mask_BTS].any()
    if attention.normalizer.sums_to_one:
        assert_equal(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))


@every_pair
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "masked"])
def test_gradients(score, normalizer, mask):
    attention, (values, keys, queries) = make_attention(score, normalizer), make_inputs()
    if attention.normalizer.differentiable:
        apart = rand(B, T, Q)  # finite differences are inaccurate at distance 0
        assert gradcheck(lambda v, k, q: attention(v, k, q, mask), values, keys, apart, module=attention)
    else:
        gradcheck_values = torch.autograd.gradcheck(lambda v: attention(v, keys, queries, mask)[0], (values,))
        assert gradcheck_values


@every_pair
def test_gradients_are_zero_exactly_where_documented(score, normalizer):
    attention, (values, keys, queries) = make_attention(score, normalizer), make_inputs()
    context, _ = attention(values, keys, queries)
    to_values, to_keys, to_queries = gradients(context, (values, keys, queries))
    assert to_values.any()
    differentiable = attention.normalizer.differentiable
    reads_content = not attention.score.position_only
    assert bool(to_keys.any()) == (differentiable and reads_content)
    assert bool(to_queries.any()) == (differentiable and reads_content)
    assert all(bool(g.any()) == differentiable for g in gradients(context, attention.parameters()))


@pytest.mark.parametrize("normalizer", parts("normalizer"))
def test_parameters_without_grad_lists_exactly_those(normalizer):
    options = {"key_layers": 1, "query_layers": 1, "key_activation": "tanh", "query_activation": "tanh"}
    attention, (values, keys, queries) = make_attention("rbf", normalizer, **options), make_inputs()
    found = gradients(attention(values, keys, queries)[0], attention.parameters())
    for (name, _), gradient in zip(attention.named_parameters(), found, strict=True):
        assert bool(gradient.any()) != name.startswith(tuple(attention.parameters_without_grad())), name


def test_lookup_is_a_hash_table():
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]])
    values = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    queries = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1e-6], [2.0, 2.0]]])
    table = Attention(2, 2, score="rbf", normalizer="lookup")
    context, weights = table(values, keys, queries)
    assert context.flatten().tolist() == [3, 2, 0, 4]  # the last of equal keys; zero without an equal key
    assert weights[0, 0].tolist() == [0, 0, 1, 0]
    mask = torch.tensor([[True, True, False, False]])
    assert table(values, keys, queries, mask)[0].flatten().tolist() == [1, 2, 0, 0]


@pytest.mark.parametrize(("score", "normalizer"), INCOMPATIBLE)
def test_incompatible_score_and_normalizer_are_an_error(score, normalizer):
    with pytest.raises(ConfigError, match=f"'{normalizer}'.*'rbf'.*'{score}'"):
        Attention(Q, Q, score=score, normalizer=normalizer)


def test_hard_attention_selects_the_nearest_key():
    keys = torch.tensor([[[0.0], [1.0], [5.0]]])
    values = torch.tensor([[[10.0], [20.0], [30.0]]])
    attention = Attention(1, 1, score="rbf", normalizer="hard")
    context, _ = attention(values, keys, torch.tensor([[[0.4], [0.6], [100.0]]]))
    assert context.flatten().tolist() == [10, 20, 30]


NUMPY = {None: lambda x: x, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: x * (x > 0)}


def perceptron(layers, activation, x):
    """σ(W x + b) for every layer; W x without an activation."""
    linears = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    for linear in linears:
        assert (linear.bias is None) == (activation is None)
        x = x @ to_numpy(linear.weight).T + (0 if linear.bias is None else to_numpy(linear.bias))
        x = NUMPY[activation](x)
    return x, len(linears)


@pytest.mark.parametrize("key_activation", [None, "tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("query_activation", [None, "tanh"])
@pytest.mark.parametrize(("key_layers", "query_layers"), [(1, 1), (2, 1), (1, 3)])
def test_key_and_query_layers_match_numpy(key_activation, query_activation, key_layers, query_layers):
    torch.manual_seed(2)
    options = {"key_activation": key_activation, "query_activation": query_activation}
    attention = randomize_parameters(
        Attention(Q, K, score="dot", key_layers=key_layers, query_layers=query_layers, hidden_size=6, **options)
    )
    values, keys, queries = rand(B, S, V), rand(B, S, K), rand(B, T, Q)
    k, n_k = perceptron(attention.key_layers, key_activation, to_numpy(keys))
    q, n_q = perceptron(attention.query_layers, query_activation, to_numpy(queries))
    assert (n_k, n_q) == (key_layers, query_layers)
    assert q.shape[-1] == k.shape[-1] == 6
    _, weights = attention(values, keys, queries)
    powers = np.exp(q @ np.swapaxes(k, 1, 2))
    np.testing.assert_allclose(to_numpy(weights), powers / powers.sum(-1, keepdims=True), rtol=0, atol=1e-10)
    assert gradcheck(lambda v, k, q: attention(v, k, q), values, keys, queries, module=attention)


@pytest.mark.parametrize("side", ["key", "query"])
def test_layers_for_only_keys_or_only_queries(side):
    """By default the layers have the query size, so that keys are projected to it."""
    torch.manual_seed(3)
    attention = randomize_parameters(Attention(Q, K if side == "key" else Q, score="dot", **{f"{side}_layers": 1}))
    values, keys, queries = rand(B, S, V), rand(B, S, attention.sizes[1]), rand(B, T, Q)
    W = (attention.key_layers if side == "key" else attention.query_layers)[0].weight
    scores = queries @ (keys @ W.t()).mT if side == "key" else (queries @ W.t()) @ keys.mT
    assert_equal(attention(values, keys, queries)[1], torch.softmax(scores, -1))


@every_pair
def test_queries_and_batch_rows_are_independent(score, normalizer):
    attention, (values, keys, queries) = make_attention(score, normalizer), make_inputs()
    context, weights = attention(values, keys, queries, MASK)
    alone = [attention(values[b : b + 1], keys[b : b + 1], queries[b : b + 1], MASK[b : b + 1]) for b in range(B)]
    assert_equal((context, weights), [torch.cat(x) for x in zip(*alone, strict=True)])
    unmasked = MASK[0]
    if score != "position":  # remove padding within a row, which would change positions
        short = attention(values[:1, unmasked], keys[:1, unmasked], queries[:1])
        assert_equal(context[:1], short[0])
    projected = attention.project_keys(keys)
    state = {name: initial[:, None] for name, initial in attention.initial_state(projected).items()}
    for t in range(T):
        step = attention.compute_weights(
            queries[:, t : t + 1], projected, MASK, position_BT=torch.full((B, 1), t), state=state
        )
        state = attention.update_state(state, step)
        assert_equal(step, weights[:, t : t + 1])


@every_pair
def test_fully_masked_query_gets_a_zero_context(score, normalizer):
    attention, (values, keys, queries) = make_attention(score, normalizer), make_inputs()
    mask = torch.ones(B, T, S, dtype=torch.bool)
    mask[0, 1] = False
    weights = attention.compute_weights(queries, attention.project_keys(keys), mask)
    context = weights @ values
    assert not context[0, 1].any()
    assert not weights[0, 1].any()
    found = gradients(context, [values, keys, queries])
    assert all(g.isfinite().all() for g in found)


@every_pair
def test_probe_reads_and_replaces_attention_weights(score, normalizer):
    attention, (values, keys, queries) = make_attention(score, normalizer), make_inputs()
    probe = RecordingProbe()
    context, weights = attention(values, keys, queries, MASK, probe=probe)
    names = [f"attention[{t}]" for t in range(T)] if attention.stateful_parts else ["attention"]
    assert list(probe.recorded) == names
    assert_equal(torch.cat([probe.recorded[name] for name in names], 1), weights, 0)
    assert_equal((context, weights), attention(values, keys, queries, MASK), 0)
    third = torch.nn.functional.one_hot(torch.tensor(2), S).double()
    context, _ = attention(values, keys, queries, probe=RecordingProbe(attention=third))
    assert_equal(context, values[:, 2:3].expand(-1, T, -1))


@every_pair
def test_forward_leaves_no_attributes_on_the_module(score, normalizer):
    attention, (values, keys, queries) = make_attention(score, normalizer), make_inputs()
    before = {id(m): set(vars(m)) for m in attention.modules()}
    attention(values, keys, queries)
    assert {id(m): set(vars(m)) for m in attention.modules()} == before


def test_mismatched_sizes_are_errors():
    attention = Attention(Q, K)
    x = torch.zeros
    with pytest.raises(ShapeError, match=r"\(4, 3\).*\(5, 3\)"):
        attention(x(B, S, V), x(B, S, K), x(B, T, 5))
    with pytest.raises(ShapeError, match=r"\(4, 3\).*\(4, 4\)"):
        attention(x(B, S, V), x(B, S, 4), x(B, T, Q))
    with pytest.raises(ShapeError, match="every value needs a key"):
        attention(x(B, S + 1, V), x(B, S, K), x(B, T, Q))
    with pytest.raises(ShapeError, match="every value needs a key"):
        attention(x(B + 1, S, V), x(B, S, K), x(B, T, Q))


@pytest.mark.parametrize("shape", [(B, S + 1), (B + 1, S), (B, T + 1, S), (S,)])
def test_mask_of_wrong_shape_is_an_error(shape):
    with pytest.raises(ShapeError, match="mask"):
        Attention(Q, K)(torch.zeros(B, S, V), torch.zeros(B, S, K), torch.zeros(B, T, Q), torch.ones(shape).bool())


def test_fully_masked_row_is_an_error():
    mask = MASK.clone()
    mask[1] = False
    with pytest.raises(InputError, match="row 1"):
        Attention(Q, K)(torch.zeros(B, S, V), torch.zeros(B, S, K), torch.zeros(B, T, Q), mask)
    with pytest.raises(InputError, match="length 0"):
        Attention(Q, K)(torch.zeros(B, 0, V), torch.zeros(B, 0, K), torch.zeros(B, T, Q), mask[:, :0])


def test_unknown_names_get_suggestions():
    with pytest.raises(UnknownNameError, match="unknown score 'aditive'; did you mean 'additive'"):
        Attention(Q, K, score="aditive")
    with pytest.raises(UnknownNameError, match="did you mean 'softmax'"):
        Attention(Q, K, normalizer="softmx")
    with pytest.raises(UnknownNameError, match="did you mean 'gamma'"):
        Attention(Q, Q, score={"name": "rbf", "gama": 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_size": 4}, "hidden_size has no effect"),
        ({"key_activation": "tanh"}, "key_layers"),
        ({"query_activation": "tanh"}, "query_layers"),
        ({"score": "position", "key_layers": 1}, "does not read keys or queries"),
        ({"score": "position", "query_layers": 1}, "does not read keys or queries"),
    ],
    ids=str,
)
def test_inconsistent_options_are_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        Attention(Q, Q, **options)

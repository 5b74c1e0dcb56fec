"""Layers of the Transformer against those of torch.nn, with the same weights."""

import pytest
import torch
from torch import nn

from seqloom.nn.transformer import DecoderLayer, EncoderLayer
from tests.nn.helpers import (
    Recorder,
    assert_equal,
    assert_equal_with_gradients,
    gradcheck,
    mixed,
    rand,
    shaken,
    unchanged,
)

B, T, S, H, N, F = 2, 5, 4, 6, 2, 7
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]).bool()
HIDDEN_FUTURE = ~torch.ones(T, T, dtype=torch.bool).tril()
norms = pytest.mark.parametrize("norm", ["before", "after"])
activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def encoder_layer(norm="before", activation="relu"):
    return shaken(EncoderLayer(H, N, F, norm, activation, 0.0))


def decoder_layer(norm="before", activation="relu", memory_size=H):
    return shaken(DecoderLayer(H, N, F, norm, activation, 0.0, memory_size))


def as_torch(ours, norm, activation, kind):
    """torch.nn's layer with our weights, and the pairs of parameters (ours, the part of theirs)."""
    theirs = kind(
        H,
        N,
        F,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm == "before",
        dtype=torch.float64,
    )
    attentions = [(ours.self_attention, theirs.self_attn)]
    paths = [ours.self_path, ours.feed_path]
    if kind is nn.TransformerDecoderLayer:
        attentions.append((ours.cross_attention, theirs.multihead_attn))
        paths.insert(1, ours.cross_path)
    linears = [ours.feed_forward[0], ours.feed_forward[-1]]
    pairs = []
    for mine, yours in [
        *zip(linears, (theirs.linear1, theirs.linear2), strict=True),
        *((path.norm, getattr(theirs, f"norm{n}")) for n, path in enumerate(paths, start=1)),
        *((mine.out, yours.out_proj) for mine, yours in attentions),
    ]:
        pairs += [(mine.weight, yours.weight, slice(None)), (mine.bias, yours.bias, slice(None))]
    for mine, yours in attentions:
        for n, linear in enumerate((mine.query, mine.key, mine.value)):
            rows = slice(n * H, (n + 1) * H)
            pairs.append((linear.weight, yours.in_proj_weight, rows))
            if linear.bias is not None:
                pairs.append((linear.bias, yours.in_proj_bias, rows))
    assert {id(mine) for mine, *_ in pairs} == {id(p) for p in ours.parameters()}
    with torch.no_grad():
        for _, yours in attentions:
            yours.in_proj_bias.zero_()
        for mine, yours, rows in pairs:
            yours[rows] = mine
    return theirs, pairs


def assert_same_gradients(result, wanted, leaves, pairs):
    assert_equal_with_gradients(result, wanted, leaves)
    mixed(result).backward()
    mixed(wanted).backward()
    for mine, yours, rows in pairs:
        assert_equal(mine.grad, yours.grad[rows])


def prepared(layer, memory, mask=MASK):
    return (*layer.cross_attention.prepare(memory), mask)


@norms
@activations
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "padded"])
def test_encoder_layer_equals_torch_nn(norm, activation, mask):
    torch.manual_seed(1)
    ours = encoder_layer(norm, activation)
    theirs, pairs = as_torch(ours, norm, activation, nn.TransformerEncoderLayer)
    x = rand(B, S, H)
    wanted = theirs(x, src_key_padding_mask=None if mask is None else ~mask)
    assert_same_gradients(ours(x, mask), wanted, [x], pairs)
    assert_equal(ours.eval()(x, mask), wanted)


@norms
@activations
def test_decoder_layer_equals_torch_nn(norm, activation):
    torch.manual_seed(2)
    ours = decoder_layer(norm, activation)
    theirs, pairs = as_torch(ours, norm, activation, nn.TransformerDecoderLayer)
    x, memory = rand(B, T, H), rand(B, S, H)
    wanted = theirs(x, memory, tgt_mask=HIDDEN_FUTURE, memory_key_padding_mask=~MASK)
    result, _, seen = ours(x, None, prepared(ours, memory))
    assert seen is None
    assert_same_gradients(result, wanted, [x, memory], pairs)
    assert_equal(ours.eval()(x, None, prepared(ours, memory))[0], wanted)


@norms
def test_decoder_layer_without_a_memory_is_a_causal_encoder_layer(norm):
    torch.manual_seed(3)
    ours = decoder_layer(norm, memory_size=None)
    theirs, pairs = as_torch(ours, norm, "relu", nn.TransformerEncoderLayer)
    x = rand(B, T, H)
    assert_same_gradients(ours(x, None, None)[0], theirs(x, src_mask=HIDDEN_FUTURE), [x], pairs)


@norms
@pytest.mark.parametrize("memory_size", [H, 3])
def test_step_by_step_with_a_cache_is_all_at_once(norm, memory_size):
    torch.manual_seed(4)
    layer = decoder_layer(norm, memory_size=memory_size)
    x, memory = rand(B, T, H), rand(B, S, memory_size)
    ready = prepared(layer, memory)
    whole = layer(x, None, ready, weights=True)
    nothing = torch.zeros(B, N, 0, H // N, dtype=torch.float64)
    past, steps, seen = (nothing, nothing), [], []
    for t in range(T):
        y, past, weights = layer(x[:, t : t + 1], past, ready, weights=True)
        steps.append(y)
        seen.append(weights)
    result = torch.cat(steps, 1), past, torch.cat(seen, 1)
    assert_equal_with_gradients(result, whole, [x, memory, *layer.parameters()])


@norms
def test_beams_share_one_memory(norm):
    torch.manual_seed(5)
    layer, K = decoder_layer(norm), 3
    x, memory = rand(B * K, 1, H), rand(B, S, H)
    past = rand(B * K, N, 2, H // N), rand(B * K, N, 2, H // N)
    shared = layer(x, past, prepared(layer, memory), weights=True)
    copied = prepared(layer, memory.repeat_interleave(K, 0), MASK.repeat_interleave(K, 0))
    assert_equal(shared, layer(x, past, copied, weights=True))


@norms
def test_no_step_sees_the_future(norm):
    torch.manual_seed(6)
    layer = decoder_layer(norm)
    x, memory = rand(1, T, H), rand(1, S, H)
    y, _, _ = layer(x, None, prepared(layer, memory, MASK[:1]))
    for t in range(T):
        (grad,) = torch.autograd.grad(mixed(y[:, t]), x, retain_graph=True)
        assert not grad[:, t + 1 :].any()
        assert grad[:, : t + 1].any(-1).all()


@norms
@activations
def test_gradients(norm, activation):
    torch.manual_seed(7)
    encoder, decoder = encoder_layer(norm, activation), decoder_layer(norm, activation, 3)
    assert gradcheck(lambda x: encoder(x, MASK), rand(B, S, H), module=encoder)
    assert gradcheck(
        lambda x, m: decoder(x, None, prepared(decoder, m))[0], rand(B, 3, H), rand(B, S, 3), module=decoder
    )


@norms
def test_names_that_a_probe_hears_and_a_look_changes_nothing(norm):
    torch.manual_seed(8)
    encoder, decoder, x, memory = encoder_layer(norm), decoder_layer(norm), rand(B, T, H), rand(B, S, H)
    probe = Recorder()
    assert_equal(encoder(memory, MASK, probe), encoder(memory, MASK))
    assert list(probe.seen) == ["self.attention"]
    probe = Recorder()
    assert_equal(
        decoder(x, None, prepared(decoder, memory), probe=probe)[0], decoder(x, None, prepared(decoder, memory))[0]
    )
    assert list(probe.seen) == [f"{part}.attention[{t}]" for part in ("self", "cross") for t in range(T)]
    assert [probe.seen[f"self.attention[{t}]"].shape for t in range(T)] == [(B, N, 1, t + 1) for t in range(T)]
    _, _, weights = decoder(x, None, prepared(decoder, memory), weights=True, probe=unchanged)
    assert_equal(weights, torch.cat([probe.seen[f"cross.attention[{t}]"] for t in range(T)], 2).mean(1))


@norms
def test_what_stands_in_the_padding_changes_nothing(norm):
    torch.manual_seed(9)
    layer, x = encoder_layer(norm), rand(B, S, H)
    other = torch.where(MASK[..., None], x, 1e3 * torch.randn_like(x))
    assert_equal(layer(other, MASK)[MASK], layer(x, MASK)[MASK])


@norms
def test_dropout_on_a_path_leaves_the_path(norm):
    torch.manual_seed(10)
    x = rand(B, S, H)
    layer = EncoderLayer(H, N, F, norm, "relu", 1.0).double()  # every function is dropped, what it was added to stays
    y = x if norm == "before" else layer.feed_path.norm(layer.self_path.norm(x))
    assert_equal(layer(x, MASK), y)

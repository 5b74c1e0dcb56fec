"""Transformer layers against those of torch.nn, with the same weights."""

import pytest
import torch
from torch import nn

from seqloom.nn.transformer import DecoderLayer, EncoderLayer
from tests.nn.helpers import (
    RecordingProbe,
    assert_equal,
    assert_equal_with_gradients,
    gradcheck,
    identity_probe,
    rand,
    randomize_parameters,
    weighted_sum,
)

B, T, S, H, N, F = 2, 5, 4, 6, 2, 7
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]).bool()
FUTURE_MASK = ~torch.ones(T, T, dtype=torch.bool).tril()
norms = pytest.mark.parametrize("norm", ["pre", "post"])
activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def encoder_layer(norm="pre", activation="relu"):
    return randomize_parameters(EncoderLayer(H, N, F, norm, activation, 0.0))


def decoder_layer(norm="pre", activation="relu", memory_size=H):
    return randomize_parameters(DecoderLayer(H, N, F, norm, activation, 0.0, memory_size))


def to_torch(ours, norm, activation, kind):
    """The torch.nn layer with our weights, and triples of our parameter, theirs, and the rows of theirs."""
    theirs = kind(
        H,
        N,
        F,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm == "pre",
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


def assert_same_gradients(result, expected, leaves, pairs):
    assert_equal_with_gradients(result, expected, leaves)
    weighted_sum(result).backward()
    weighted_sum(expected).backward()
    for mine, yours, rows in pairs:
        assert_equal(mine.grad, yours.grad[rows])


def project_memory(layer, memory, mask=MASK):
    return (*layer.cross_attention.project_memory(memory), mask)


@norms
@activations
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "padded"])
def test_encoder_layer_equals_torch_nn(norm, activation, mask):
    torch.manual_seed(1)
    ours = encoder_layer(norm, activation)
    theirs, pairs = to_torch(ours, norm, activation, nn.TransformerEncoderLayer)
    x = rand(B, S, H)
    expected = theirs(x, src_key_padding_mask=None if mask is None else ~mask)
    assert_same_gradients(ours(x, mask), expected, [x], pairs)
    assert_equal(ours.eval()(x, mask), expected)


@norms
@activations
def test_decoder_layer_equals_torch_nn(norm, activation):
    torch.manual_seed(2)
    ours = decoder_layer(norm, activation)
    theirs, pairs = to_torch(ours, norm, activation, nn.TransformerDecoderLayer)
    x, memory = rand(B, T, H), rand(B, S, H)
    expected = theirs(x, memory, tgt_mask=FUTURE_MASK, memory_key_padding_mask=~MASK)
    result, _, weights = ours(x, None, project_memory(ours, memory))
    assert weights is None
    assert_same_gradients(result, expected, [x, memory], pairs)
    assert_equal(ours.eval()(x, None, project_memory(ours, memory))[0], expected)


@norms
def test_decoder_layer_without_a_memory_is_a_causal_encoder_layer(norm):
    torch.manual_seed(3)
    ours = decoder_layer(norm, memory_size=None)
    theirs, pairs = to_torch(ours, norm, "relu", nn.TransformerEncoderLayer)
    x = rand(B, T, H)
    assert_same_gradients(ours(x, None, None)[0], theirs(x, src_mask=FUTURE_MASK), [x], pairs)


@norms
@pytest.mark.parametrize("memory_size", [H, 3])
def test_incremental_decoding_with_kv_cache_equals_parallel(norm, memory_size):
    torch.manual_seed(4)
    layer = decoder_layer(norm, memory_size=memory_size)
    x, memory = rand(B, T, H), rand(B, S, memory_size)
    projected = project_memory(layer, memory)
    whole = layer(x, None, projected, return_attention=True)
    empty = torch.zeros(B, N, 0, H // N, dtype=torch.float64)
    kv_cache, steps, attention = (empty, empty), [], []
    for t in range(T):
        y, kv_cache, weights = layer(x[:, t : t + 1], kv_cache, projected, return_attention=True)
        steps.append(y)
        attention.append(weights)
    result = torch.cat(steps, 1), kv_cache, torch.cat(attention, 1)
    assert_equal_with_gradients(result, whole, [x, memory, *layer.parameters()])


@norms
def test_beams_share_memory(norm):
    torch.manual_seed(5)
    layer, K = decoder_layer(norm), 3
    x, memory = rand(B * K, 1, H), rand(B, S, H)
    kv_cache = rand(B * K, N, 2, H // N), rand(B * K, N, 2, H // N)
    shared = layer(x, kv_cache, project_memory(layer, memory), return_attention=True)
    copied = project_memory(layer, memory.repeat_interleave(K, 0), MASK.repeat_interleave(K, 0))
    assert_equal(shared, layer(x, kv_cache, copied, return_attention=True))


@norms
def test_self_attention_is_causal(norm):
    torch.manual_seed(6)
    layer = decoder_layer(norm)
    x, memory = rand(1, T, H), rand(1, S, H)
    y, _, _ = layer(x, None, project_memory(layer, memory, MASK[:1]))
    for t in range(T):
        (grad,) = torch.autograd.grad(weighted_sum(y[:, t]), x, retain_graph=True)
        assert not grad[:, t + 1 :].any()
        assert grad[:, : t + 1].any(-1).all()


@norms
@activations
def test_gradients(norm, activation):
    torch.manual_seed(7)
    encoder, decoder = encoder_layer(norm, activation), decoder_layer(norm, activation, 3)
    assert gradcheck(lambda x: encoder(x, MASK), rand(B, S, H), module=encoder)
    assert gradcheck(
        lambda x, m: decoder(x, None, project_memory(decoder, m))[0], rand(B, 3, H), rand(B, S, 3), module=decoder
    )


@norms
def test_probe_names_and_recording_changes_nothing(norm):
    torch.manual_seed(8)
    encoder, decoder, x, memory = encoder_layer(norm), decoder_layer(norm), rand(B, T, H), rand(B, S, H)
    probe = RecordingProbe()
    assert_equal(encoder(memory, MASK, probe), encoder(memory, MASK))
    assert list(probe.recorded) == ["self.attention"]
    probe = RecordingProbe()
    assert_equal(
        decoder(x, None, project_memory(decoder, memory), probe=probe)[0],
        decoder(x, None, project_memory(decoder, memory))[0],
    )
    assert list(probe.recorded) == [f"{part}.attention[{t}]" for part in ("self", "cross") for t in range(T)]
    assert [probe.recorded[f"self.attention[{t}]"].shape for t in range(T)] == [(B, N, 1, t + 1) for t in range(T)]
    _, _, weights = decoder(x, None, project_memory(decoder, memory), return_attention=True, probe=identity_probe)
    assert_equal(weights, torch.cat([probe.recorded[f"cross.attention[{t}]"] for t in range(T)], 2).mean(1))


@norms
def test_padding_values_change_nothing(norm):
    torch.manual_seed(9)
    layer, x = encoder_layer(norm), rand(B, S, H)
    other = torch.where(MASK[..., None], x, 1e3 * torch.randn_like(x))
    assert_equal(layer(other, MASK)[MASK], layer(x, MASK)[MASK])


@norms
def test_dropout_keeps_the_residual(norm):
    torch.manual_seed(10)
    x = rand(B, S, H)
    layer = EncoderLayer(H, N, F, norm, "relu", 1.0).double()  # drops every sub-layer, but not the residual
    y = x if norm == "pre" else layer.feed_path.norm(layer.self_path.norm(x))
    assert_equal(layer(x, MASK), y)

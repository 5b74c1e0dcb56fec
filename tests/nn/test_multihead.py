"""Multi-head attention against torch.nn.MultiheadAttention, with the same weights."""

import pytest
import torch
from torch import nn

from seqloom.errors import ShapeError
from seqloom.nn.multihead import MultiHeadAttention
from tests.nn.helpers import (
    RecordingProbe,
    assert_equal,
    assert_equal_with_gradients,
    gradcheck,
    gradients,
    identity_probe,
    rand,
    randomize_parameters,
    weighted_sum,
)

B, T, S, H, M = 2, 5, 4, 6, 3
PADDING = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]).bool()
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()


def to_torch(ours, memory_size=None):
    """torch.nn.MultiheadAttention with our weights; its key bias is zero."""
    size = ours.out.in_features
    theirs = nn.MultiheadAttention(
        size, ours.heads, kdim=memory_size, vdim=memory_size, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        for ours_, weight in zip((ours.query, ours.key, ours.value), input_weights(theirs), strict=True):
            weight.copy_(ours_.weight)
        theirs.in_proj_bias.copy_(torch.cat((ours.query.bias, torch.zeros(size).double(), ours.value.bias)))
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    return theirs


def input_weights(theirs, grad=False):
    """The three input matrices, in either of torch's representations, or their gradients."""
    if theirs.in_proj_weight is not None:
        return (theirs.in_proj_weight.grad if grad else theirs.in_proj_weight).chunk(3)
    separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    return tuple(w.grad for w in separate) if grad else separate


def assert_same_weight_gradients(ours, theirs):
    for linear, grad in zip((ours.query, ours.key, ours.value), input_weights(theirs, grad=True), strict=True):
        assert_equal(linear.weight.grad, grad)
    q, _, v = theirs.in_proj_bias.grad.chunk(3)
    assert_equal((ours.query.bias.grad, ours.value.bias.grad), (q, v))
    assert_equal(ours.out.weight.grad, theirs.out_proj.weight.grad)
    assert_equal(ours.out.bias.grad, theirs.out_proj.bias.grad)


@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("memory_size", [None, M])
@pytest.mark.parametrize("kind", ["full", "padding", "by query", "causal"])
@pytest.mark.parametrize("return_attention", [False, True], ids=["fused", "weights"])
def test_equals_torch_nn(heads, memory_size, kind, return_attention):
    torch.manual_seed(1)
    ours = randomize_parameters(MultiHeadAttention(H, heads, memory_size=memory_size))
    theirs = to_torch(ours, memory_size)
    x, memory = rand(B, T, H), rand(B, T if kind == "causal" else S, memory_size or H)
    by_query = torch.rand(B, T, S) < 0.7
    by_query[..., 0] = True
    mask = {"padding": PADDING, "by query": by_query}.get(kind)
    hidden = {  # masks of torch are True for masked positions
        "padding": {"key_padding_mask": ~PADDING},
        "by query": {"attn_mask": ~by_query.repeat_interleave(heads, 0)},
        "causal": {"attn_mask": ~CAUSAL},
    }.get(kind, {})

    y, weights = ours(
        x, *ours.project_memory(memory), mask, causal=kind == "causal", return_attention=return_attention
    )
    expected, mean = theirs(x, memory, memory, **hidden)
    assert_equal_with_gradients(y, expected, [x, memory])
    assert (weights is None) != return_attention
    if return_attention:
        assert_equal(weights, mean)
    weighted_sum(y).backward()
    weighted_sum(expected).backward()
    assert_same_weight_gradients(ours, theirs)


@pytest.mark.parametrize("kind", ["full", "padding", "causal"])
def test_attention_weights_and_probes_do_not_change_the_output(kind):
    torch.manual_seed(2)
    ours = randomize_parameters(MultiHeadAttention(H, 2))
    x, memory = rand(B, T, H), rand(B, T if kind == "causal" else S, H)
    options = {"mask": PADDING if kind == "padding" else None, "causal": kind == "causal"}
    projected, leaves = ours.project_memory(memory), [x, memory, *ours.parameters()]
    fused, _ = ours(x, *projected, **options)
    unfused, weights = ours(x, *projected, **options, return_attention=True)
    probed, none = ours(x, *projected, **options, probe=identity_probe)
    assert none is None
    assert_equal_with_gradients(unfused, fused, leaves)
    assert_equal_with_gradients(probed, fused, leaves)
    assert_equal(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))
    hidden = {"padding": ~PADDING[:, None].expand(-1, T, -1), "causal": ~CAUSAL.expand(B, -1, -1)}.get(kind)
    if hidden is not None:
        assert not weights[hidden].any()


@pytest.mark.parametrize("return_attention", [False, True], ids=["fused", "weights"])
def test_fully_masked_query_gets_only_the_output_bias(return_attention):
    torch.manual_seed(7)
    ours = randomize_parameters(MultiHeadAttention(H, 2))
    x, memory = rand(B, T, H), rand(B, S, H)
    mask = torch.ones(B, T, S, dtype=torch.bool)
    mask[0, 1] = False
    y, _ = ours(x, *ours.project_memory(memory), mask, return_attention=return_attention)
    assert_equal(y[0, 1], ours.out.bias)
    assert all(g.isfinite().all() for g in gradients(y, [x, memory, *ours.parameters()]))


def test_probe_reads_and_ablates_heads():
    torch.manual_seed(3)
    ours = randomize_parameters(MultiHeadAttention(H, 2))
    x, memory = rand(B, T, H), rand(B, S, H)
    probe = RecordingProbe()
    _, mean = ours(x, *ours.project_memory(memory), PADDING, return_attention=True, probe=probe)
    assert probe.recorded["attention"].shape == (B, 2, T, S)
    assert_equal(probe.recorded["attention"].mean(1), mean)

    def ablate_first(name, weights):
        return torch.cat((torch.zeros_like(weights[:, :1]), weights[:, 1:]), 1)

    ablated, _ = ours(x, *ours.project_memory(memory), PADDING, probe=ablate_first)
    with torch.no_grad():
        ours.out.weight[:, : H // 2] = 0  # removes the contribution of the first head
    assert_equal(ablated, ours(x, *ours.project_memory(memory), PADDING)[0])


@pytest.mark.parametrize("return_attention", [False, True], ids=["fused", "weights"])
def test_gradients(return_attention):
    torch.manual_seed(4)
    ours = randomize_parameters(MultiHeadAttention(4, 2, memory_size=M))
    x, memory = rand(B, 3, 4), rand(B, S, M)

    def run(x, memory):
        y, weights = ours(x, *ours.project_memory(memory), PADDING, return_attention=return_attention)
        return (y, weights) if return_attention else y

    assert gradcheck(run, x, memory, module=ours)


def test_key_bias_would_change_nothing():
    """This is why keys have no bias: it would add the same number to all scores of a query."""
    torch.manual_seed(5)
    ours = randomize_parameters(MultiHeadAttention(H, 2))
    assert ours.key.bias is None
    x, memory = rand(B, T, H), rand(B, S, H)
    keys, values = ours.project_memory(memory)
    assert_equal(ours(x, keys + rand(1, 2, 1, H // 2), values, PADDING)[0], ours(x, keys, values, PADDING)[0])


def test_attention_dropout_in_training_mode_only():
    torch.manual_seed(6)
    ours = randomize_parameters(MultiHeadAttention(H, 2, dropout=1.0))
    x, memory = rand(B, T, H), rand(B, S, H)
    for probe in ({}, {"probe": identity_probe}):
        y, _ = ours.train()(x, *ours.project_memory(memory), **probe)
        assert_equal(y, ours.out.bias.expand(B, T, H))  # all weights are dropped: only the output bias remains
        y, _ = ours.eval()(x, *ours.project_memory(memory), **probe)
        assert not torch.allclose(y, ours.out.bias.expand(B, T, H))


def test_indivisible_number_of_heads_is_an_error():
    with pytest.raises(ShapeError, match="heads=4 is invalid: the hidden size, 6, must be divisible"):
        MultiHeadAttention(6, 4)


@pytest.mark.parametrize(
    ("width", "mask"),
    [(5, None), (4, torch.ones(2, 3)), (4, torch.ones(2, 4, dtype=torch.bool))],
    ids=["width", "float mask", "long mask"],
)
def test_wrong_shapes_are_errors(width, mask):
    attention = MultiHeadAttention(4, 2)
    with pytest.raises(ShapeError):
        attention(torch.randn(2, 5, width), *attention.project_memory(torch.randn(2, 3, 4)), mask)

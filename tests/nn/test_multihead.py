"""Multi-head attention against torch.nn.MultiheadAttention, with the same weights."""

import pytest
import torch
from torch import nn

from seqloom.errors import SizeError
from seqloom.nn.multihead import MultiHead
from tests.nn.helpers import (
    Recorder,
    assert_equal,
    assert_equal_with_gradients,
    gradcheck,
    gradients,
    mixed,
    rand,
    shaken,
    unchanged,
)

B, T, S, H, M = 2, 5, 4, 6, 3
PADDING = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]).bool()
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()


def as_torch(ours, memory_size=None):
    """torch.nn's with our weights; the bias of its keys, which changes nothing, is zero."""
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
    """The three input matrices, however torch keeps them, or their gradients."""
    if theirs.in_proj_weight is not None:
        return (theirs.in_proj_weight.grad if grad else theirs.in_proj_weight).chunk(3)
    kept = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    return tuple(w.grad for w in kept) if grad else kept


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
@pytest.mark.parametrize("weights", [False, True], ids=["fused", "weights"])
def test_equals_torch_nn(heads, memory_size, kind, weights):
    torch.manual_seed(1)
    ours = shaken(MultiHead(H, heads, memory_size=memory_size))
    theirs = as_torch(ours, memory_size)
    x, memory = rand(B, T, H), rand(B, T if kind == "causal" else S, memory_size or H)
    by_query = torch.rand(B, T, S) < 0.7
    by_query[..., 0] = True
    mask = {"padding": PADDING, "by query": by_query}.get(kind)
    hidden = {  # torch's masks are True where hidden
        "padding": {"key_padding_mask": ~PADDING},
        "by query": {"attn_mask": ~by_query.repeat_interleave(heads, 0)},
        "causal": {"attn_mask": ~CAUSAL},
    }.get(kind, {})

    y, seen = ours(x, *ours.prepare(memory), mask, causal=kind == "causal", weights=weights)
    wanted, mean = theirs(x, memory, memory, **hidden)
    assert_equal_with_gradients(y, wanted, [x, memory])
    assert (seen is None) != weights
    if weights:
        assert_equal(seen, mean)
    mixed(y).backward()
    mixed(wanted).backward()
    assert_same_weight_gradients(ours, theirs)


@pytest.mark.parametrize("kind", ["full", "padding", "causal"])
def test_with_weights_or_a_probe_the_result_is_that_of_the_fused_way(kind):
    torch.manual_seed(2)
    ours = shaken(MultiHead(H, 2))
    x, memory = rand(B, T, H), rand(B, T if kind == "causal" else S, H)
    more = {"mask": PADDING if kind == "padding" else None, "causal": kind == "causal"}
    prepared, leaves = ours.prepare(memory), [x, memory, *ours.parameters()]
    fused, _ = ours(x, *prepared, **more)
    shown, weights = ours(x, *prepared, **more, weights=True)
    probed, none = ours(x, *prepared, **more, probe=unchanged)
    assert none is None
    assert_equal_with_gradients(shown, fused, leaves)
    assert_equal_with_gradients(probed, fused, leaves)
    assert_equal(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))
    hidden = {"padding": ~PADDING[:, None].expand(-1, T, -1), "causal": ~CAUSAL.expand(B, -1, -1)}.get(kind)
    if hidden is not None:
        assert not weights[hidden].any()


@pytest.mark.parametrize("weights", [False, True], ids=["fused", "weights"])
def test_a_query_with_nothing_to_see_gets_nothing(weights):
    torch.manual_seed(7)
    ours = shaken(MultiHead(H, 2))
    x, memory = rand(B, T, H), rand(B, S, H)
    seen = torch.ones(B, T, S, dtype=torch.bool)
    seen[0, 1] = False
    y, _ = ours(x, *ours.prepare(memory), seen, weights=weights)
    assert_equal(y[0, 1], ours.out.bias)
    assert all(g.isfinite().all() for g in gradients(y, [x, memory, *ours.parameters()]))


def test_a_probe_sees_every_head_and_may_silence_one():
    torch.manual_seed(3)
    ours = shaken(MultiHead(H, 2))
    x, memory = rand(B, T, H), rand(B, S, H)
    probe = Recorder()
    _, mean = ours(x, *ours.prepare(memory), PADDING, weights=True, probe=probe)
    assert probe.seen["attention"].shape == (B, 2, T, S)
    assert_equal(probe.seen["attention"].mean(1), mean)

    def silence_first(name, weights):
        return torch.cat((torch.zeros_like(weights[:, :1]), weights[:, 1:]), 1)

    silenced, _ = ours(x, *ours.prepare(memory), PADDING, probe=silence_first)
    with torch.no_grad():
        ours.out.weight[:, : H // 2] = 0  # what the first head would have written
    assert_equal(silenced, ours(x, *ours.prepare(memory), PADDING)[0])


@pytest.mark.parametrize("weights", [False, True], ids=["fused", "weights"])
def test_gradients(weights):
    torch.manual_seed(4)
    ours = shaken(MultiHead(4, 2, memory_size=M))
    x, memory = rand(B, 3, 4), rand(B, S, M)

    def run(x, memory):
        y, seen = ours(x, *ours.prepare(memory), PADDING, weights=weights)
        return (y, seen) if weights else y

    assert gradcheck(run, x, memory, module=ours)


def test_a_bias_on_keys_would_change_nothing():
    """Why there is none: every score of a query would rise alike."""
    torch.manual_seed(5)
    ours = shaken(MultiHead(H, 2))
    assert ours.key.bias is None
    x, memory = rand(B, T, H), rand(B, S, H)
    keys, values = ours.prepare(memory)
    assert_equal(ours(x, keys + rand(1, 2, 1, H // 2), values, PADDING)[0], ours(x, keys, values, PADDING)[0])


def test_dropout_is_on_the_weights_and_in_training_only():
    torch.manual_seed(6)
    ours = shaken(MultiHead(H, 2, dropout=1.0))
    x, memory = rand(B, T, H), rand(B, S, H)
    for probe in ({}, {"probe": unchanged}):
        y, _ = ours.train()(x, *ours.prepare(memory), **probe)
        assert_equal(y, ours.out.bias.expand(B, T, H))  # no weights, no values: only the last bias is left
        y, _ = ours.eval()(x, *ours.prepare(memory), **probe)
        assert not torch.allclose(y, ours.out.bias.expand(B, T, H))


def test_heads_that_do_not_share_the_size():
    with pytest.raises(SizeError, match="4 heads can't share a size of 6"):
        MultiHead(6, 4)


@pytest.mark.parametrize(
    ("width", "mask"),
    [(5, None), (4, torch.ones(2, 3)), (4, torch.ones(2, 4, dtype=torch.bool))],
    ids=["width", "float mask", "long mask"],
)
def test_what_does_not_fit_is_refused(width, mask):
    attention = MultiHead(4, 2)
    with pytest.raises(SizeError):
        attention(torch.randn(2, 5, width), *attention.prepare(torch.randn(2, 3, 4)), mask)

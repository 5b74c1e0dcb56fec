"""Wiring of models: properties that no single paper covers, and invalid combinations."""

import pytest
import torch
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import BOS, shift
from seqloom.errors import ConfigError, InputError, ShapeError

V, SIZE = 9, 4
TWO_LAYERS = {"encoder.layers": 2, "decoder.layers": 2}
SMALL = {
    "luong": TWO_LAYERS | {"source_embedder.reverse": False},
    "sutskever": TWO_LAYERS,
    "transformer": TWO_LAYERS | {"encoder.heads": 2, "decoder.heads": 2},
}


def built(preset: str, **overrides):
    torch.manual_seed(1)
    overrides = SMALL.get(preset, {}) | overrides
    model = build_model(preset, sizes={"source": V, "target": V}, hidden_size=SIZE, overrides=overrides)
    return model.double().eval()


def batch(lm: bool = False) -> Batch:
    return Batch.from_lists([[3, 4, 5, 6], [7]], None if lm else [[5, 4], [8, 7, 6, 3]])


def run(model, batch: Batch, **options):
    memory = model.encode(batch)
    return model(shift(model.output.start(memory), batch.target), memory, attention=True, **options), memory


@torch.no_grad()
def test_sum_readout_adds_the_logits_of_state_and_context():
    """logits = W_out s + W_att a (+ b)."""
    model = built("luong", **{"decoder.readout": "sum", "decoder.input_feeding": False})
    recorded = {}

    def probe(name, tensor):
        recorded[name] = tensor
        return tensor

    decoded, memory = run(model, batch(), probe=probe)
    s = torch.stack([recorded[f"decoder.1.h[{t}]"] for t in range(5)], 1)
    a = decoded.attention @ memory["values"]
    W_out, W_att = model.output.weight[:, :SIZE], model.output.weight[:, SIZE:]
    assert_close(model.output.logits(decoded.features), s @ W_out.t() + a @ W_att.t() + model.output.bias)


@torch.no_grad()
@pytest.mark.parametrize("preset", ["sutskever", "luong", "bahdanau"])
def test_reverse_is_the_same_as_a_reversed_source(preset):
    reversing = built(preset, source_embedder={"name": "tokens", "reverse": True})
    plain = built(preset, source_embedder={"name": "tokens", "reverse": False})
    plain.load_state_dict(reversing.state_dict())
    given = batch()
    reversed_batch = Batch.from_lists([[3, 4, 5, 6], [7]], [[4, 5], [3, 6, 7, 8]])
    (decoded, memory), (expected, other) = run(reversing, given), run(plain, reversed_batch)
    assert_close(decoded.features, expected.features)
    # The memory keeps the order of the source, and so do the attention weights.
    for row, length in enumerate(given.source.mask.sum(1)):
        assert_close(memory["values"][row, :length], other["values"][row, :length].flip(0))
        if decoded.attention is not None:
            assert_close(decoded.attention[row, :, :length], expected.attention[row, :, :length].flip(-1))
    assert torch.equal(memory["source"], given.source.values)
    assert torch.equal(memory.mask, given.source.mask)


@pytest.mark.parametrize(
    ("overrides", "encoder", "decoder"),
    [
        ({"decoder.cell": "gru"}, "2 × lstm (h, c) of size 4", "2 × gru (h) of size 4"),
        ({"encoder.layers": 1}, "1 × lstm (h, c) of size 4", "2 × lstm (h, c) of size 4"),
        ({"encoder.hidden_size": 6}, "2 × lstm (h, c) of size 6", "2 × lstm (h, c) of size 4"),
        ({"encoder.bidirectional": True}, "2 × lstm (h, c) of size 8", "2 × lstm (h, c) of size 4"),
        ({"encoder": {"name": "transformer"}}, "none", "2 × lstm (h, c) of size 4"),
    ],
    ids=["cell", "layers", "size", "directions", "no state"],
)
def test_copy_bridge_error_names_both_state_shapes(overrides, encoder, decoder):
    with pytest.raises(ShapeError) as error:
        built("luong", **overrides)
    assert f"the encoder ends with {encoder} and the decoder starts with {decoder}" in str(error.value)


def test_copy_bridge_accepts_concatenated_directions_of_the_right_size():
    built("luong", **{"encoder.bidirectional": True, "encoder.hidden_size": SIZE // 2})


@pytest.mark.parametrize("bridge", ["copy", "dense"])
def test_bridge_to_a_decoder_without_a_state_is_refused(bridge):
    with pytest.raises(ShapeError, match="use bridge 'none'"):
        built("transformer", bridge=bridge)


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("current", [False, True])
def test_attention_over_the_past_is_causal(current, feeding):
    overrides = {"decoder.include_current": current, "decoder.readout": "context", "decoder.input_feeding": feeding}
    model = built("attention-lm", **overrides)
    decoded, _ = run(model, batch(lm=True))
    visible = decoded.attention[0] > 0
    T = len(visible)
    expected = torch.ones(T, T, dtype=torch.bool).tril(0 if current else -1)[:, : visible.shape[1]]
    assert torch.equal(visible, expected)
    assert bool(decoded.features[:, 0].any()) == current, "at t = 1 the past is empty, and the context zero"
    assert decoded.features[:, 1:].any()


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
def test_attention_weights_over_the_past_have_the_same_shape_in_every_wiring(feeding):
    """B T T: one column per state."""
    decoded, _ = run(built("attention-lm", **{"decoder.input_feeding": feeding}), batch(lm=True))
    assert decoded.attention.shape == (2, 5, 5)


@torch.no_grad()
def test_transformer_state_caches_keys_and_values_of_every_step():
    model = built("transformer")
    given = batch()
    decoded, memory = run(model, given)
    state = model.initial_state(memory)
    for t, last in enumerate(shift(model.output.start(memory), given.target).unbind(1)):
        assert all(tensor.shape[2] == t for tensor in state.values())
        step = model.step(last, state, memory)
        assert_close(step.features, decoded.features[:, t])
        for name, tensor in state.items():
            assert torch.equal(step.state[name][:, :, :t], tensor)
        state = step.state


@torch.no_grad()
@pytest.mark.parametrize("preset", ["luong", "bahdanau", "transformer", "attention-lm"])
def test_features_do_not_depend_on_future_tokens(preset):
    model = built(preset)
    given = batch(lm=preset == "attention-lm")
    memory = model.encode(given)
    inputs = shift(model.output.start(memory), given.target)
    changed = inputs.clone()
    changed[:, 3:] = 8
    before, after = model(inputs, memory).features, model(changed, memory).features
    assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_tied_embeddings_are_one_parameter():
    model = built("luong", **{"output.tie_output_embeddings": True})
    assert [name for name, _ in model.output.named_parameters()] == ["bias", "embedding.weight"]
    f = torch.randn(3, SIZE, dtype=torch.double)
    assert_close(model.output.logits(f), f @ model.output.embedding.weight.t() + model.output.bias)


def test_tied_embeddings_of_another_size_are_refused():
    with pytest.raises(ShapeError, match="features of the embedding size, 3, but they have size 4"):
        built("luong", **{"output.tie_output_embeddings": True, "output.embedding_size": 3})


@pytest.mark.parametrize("tied", [False, True])
def test_shared_embeddings_are_one_parameter(tied):
    model = built("luong", share_embeddings=True, **{"output.tie_output_embeddings": tied})
    separate = built("luong", **{"output.tie_output_embeddings": tied})
    assert model.source_embedder.embedding is model.output.embedding
    assert len(list(model.parameters())) == len(list(separate.parameters())) - 1
    model.loss(batch()).total.backward()
    gradient = model.source_embedder.embedding.weight.grad
    assert gradient[8].any(), "token 8 occurs in a source only"
    assert gradient[1].any(), "BOS is fed to the decoder only"


@pytest.mark.parametrize("target", [V, V + 1])
def test_shared_embeddings_of_different_sizes_are_refused(target):
    with pytest.raises(ConfigError) as error:
        build_model(
            "luong",
            sizes={"source": V, "target": target},
            hidden_size=SIZE,
            overrides={"share_embeddings": True, "source_embedder.embedding_size": SIZE if target > V else 3},
        )
    assert "share_embeddings needs the same vocabulary size and embedding size" in str(error.value)
    assert str((target, SIZE)) in str(error.value)


def test_batch_without_a_source_is_refused():
    with pytest.raises(InputError, match="needs a source, but this batch has none"):
        built("cho").loss(batch(lm=True))


def test_token_outside_the_vocabulary_is_refused():
    with pytest.raises(ShapeError, match=rf"\b{V}\b.*vocabulary.*\b{V - 1}\b"):
        built("cho").loss(Batch.from_lists([[3]], [[V]]))


@pytest.mark.parametrize("preset", ["luong", "bahdanau"])
def test_decoder_gets_gradients_from_steps_on_a_memory_without_gradients(preset):
    """With a frozen encoder: weights folded into its memory used to get no gradient."""
    model = build_model(preset, sizes={"source": 9, "target": 9}, hidden_size=8)
    batch = Batch.from_lists([[4, 5]], [[6, 7, 8]])
    with torch.no_grad():
        memory = model.encode(batch)
        state = model.initial_state(memory)
    model.step(torch.tensor([BOS]), state, memory).features.sum().backward()
    by_step = {name: p.grad for name, p in model.decoder.named_parameters()}
    model.zero_grad()
    model(torch.tensor([[BOS]]), memory).features.sum().backward()
    for name, parameter in model.decoder.named_parameters():
        if parameter.grad is not None:
            assert_close(by_step[name], parameter.grad)


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
def test_context_readout_returns_the_context(feeding):
    model = built("luong", **{"decoder.readout": "context", "decoder.input_feeding": feeding})
    decoded, memory = run(model, batch())
    assert_close(decoded.features, decoded.attention @ memory["values"])


@torch.no_grad()
@pytest.mark.parametrize("encoder", ["recurrent", "transformer"])
def test_mean_summary_ignores_padding(encoder):
    options = {"name": "recurrent", "summary": "mean", "bidirectional": True} if encoder == "recurrent" else {
        "name": "transformer", "heads": 2, "layers": 1}  # fmt: skip
    memory = built("cho", encoder=options).encode(batch())
    for row, length in enumerate((2, 4)):
        assert_close(memory["summary"][row], memory["values"][row, :length].sum(0) / length)


@torch.no_grad()
def test_final_summary_concatenates_the_final_states_of_both_directions():
    memory = built("cho", **{"encoder.bidirectional": True}).encode(batch())
    for row, length in enumerate((2, 4)):
        forward, backward = memory["values"][row, length - 1, :SIZE], memory["values"][row, 0, SIZE:]
        assert_close(memory["summary"][row], torch.cat((forward, backward)))


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
def test_decoder_dropout_is_between_layers_and_on_features(feeding):
    """With everything dropped, the second layer reads only its own state, and features are zero."""
    overrides = {"decoder.input_feeding": feeding, "decoder.readout": "sum", "decoder.dropout": 0.999999}
    model = built("luong", **overrides).train()
    recorded = {}

    def probe(name, tensor):
        recorded[name] = tensor
        return tensor

    torch.manual_seed(0)
    decoded, memory = run(model, batch(), probe=probe)
    assert not decoded.features.any()
    cell = model.decoder.cells[1]
    state = tuple(model.initial_state(memory)[f"1.{name}"] for name in ("h", "c"))
    for t in range(decoded.features.shape[1]):
        h, state = cell(cell.project(torch.zeros(2, SIZE, dtype=torch.double)), state)
        assert_close(recorded[f"decoder.1.h[{t}]"], h)
    assert recorded["decoder.0.h[0]"].any()


@pytest.mark.parametrize("preset", ["luong", "bahdanau", "transformer", "attention-lm", "cho"])
def test_forward_continues_from_a_state(preset):
    has_source = preset != "attention-lm"
    model = built(preset)
    batch = Batch.from_lists([[4, 5, 6, 7], [8, 4, 5, 6]], [[4, 5], [6]] if has_source else None)
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    state = model.initial_state(memory)
    for t in range(2):
        state = model.step(inputs[:, t], state, memory).state
    rest = model.decoder(model.output.feed(inputs[:, 2:]), state, memory)
    torch.testing.assert_close(rest.features, model(inputs, memory).features[:, 2:])


def test_encode_needs_no_target():
    model = build_model("luong", sizes={"source": 9, "target": 9}, hidden_size=4)
    batch = Batch.from_lists(sources=[[4, 5], [6]])
    memory = model.encode(batch)
    assert memory.rows == 2
    with pytest.raises(InputError, match="needs a target"):
        model.loss(batch)
    with pytest.raises(InputError, match="at least one field"):
        Batch({})
    with pytest.raises(InputError, match="no source"):
        build_model("attention-lm", sizes={"target": 9}, hidden_size=4).encode(batch)


@pytest.mark.parametrize("preset", ["luong", "cho", "transformer"])
def test_rows_that_are_not_a_multiple_of_the_sentences_are_refused(preset):
    model = built(preset)
    memory = model.encode(Batch.from_lists(sources=[[4, 5], [6]]))
    state = model.initial_state(memory).select(torch.tensor([0, 0, 1]))
    with pytest.raises(ShapeError, match=r"3 rows .* 2 sentences"):
        model.step(torch.tensor([4, 4, 4]), state, memory)


def test_unused_summary_is_refused():
    with pytest.raises(ConfigError, match="summary='mean' has no effect"):
        build_model("luong", sizes={"source": 9, "target": 9}, hidden_size=4, overrides={"encoder.summary": "mean"})


def test_dropout_mask_is_sampled_for_the_features_only(monkeypatch):
    """With one layer, nothing else is dropped."""
    sampled = []
    monkeypatch.setattr(
        "seqloom.nn.dropout.dropout_mask", lambda shape, p, like: sampled.append(shape) or like.new_ones(shape)
    )
    for preset, shapes in (("bahdanau", [(2, 3, 4)]), ("luong", [(2, 3, 4)])):
        model = build_model(
            preset,
            sizes={"source": 9, "target": 9},
            hidden_size=4,
            overrides={"decoder.dropout": 0.5, "decoder.layers": 1, "encoder.layers": 1},
        ).train()
        sampled.clear()
        model.loss(Batch.from_lists([[4, 5], [6, 7]], [[4, 5], [6, 7]]))
        assert [tuple(shape) for shape in sampled] == shapes

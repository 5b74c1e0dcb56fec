"""Facts of wiring that no single paper holds."""

import pytest
import torch
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import START, shift
from seqloom.errors import InputError, OptionError, SizeError

V, SIZE = 9, 4


def built(description, *, lm: bool = False, size: int = SIZE, **settings):
    torch.manual_seed(1)
    model = build_model(description, sizes={"source": V, "target": V}, size=size, settings=settings)
    return model.double().eval()


def batch(lm: bool = False) -> Batch:
    return Batch.of([[3, 4, 5, 6], [7]], None if lm else [[5, 4], [8, 7, 6, 3]])


def run(model, given: Batch, **options):
    memory = model.encode(given)
    return model(shift(model.output.start(memory), given.target), memory, attention=True, **options), memory


@torch.no_grad()
def test_readout_sum_adds_two_products():
    """logits = W_out s + W_att a (+ b)."""
    model = built("luong", **{"decoder.readout": "sum", "decoder.input_feeding": False})
    heard = {}

    def probe(name, tensor):
        heard[name] = tensor
        return tensor

    decoded, memory = run(model, batch(), probe=probe)
    s = torch.stack([heard[f"decoder.1.h[{t}]"] for t in range(5)], 1)
    a = decoded.attention @ memory["values"]
    W_out, W_att = model.output.weight[:, :SIZE], model.output.weight[:, SIZE:]
    assert_close(model.output.logits(decoded.features), s @ W_out.t() + a @ W_att.t() + model.output.bias)


@torch.no_grad()
@pytest.mark.parametrize("preset", ["sutskever", "luong", "bahdanau"])
def test_reading_backwards_is_reading_the_reversed_source(preset):
    backwards = built(preset, source={"name": "tokens", "reverse": True})
    plain = built(preset, source={"name": "tokens", "reverse": False})
    plain.load_state_dict(backwards.state_dict())
    given = batch()
    turned = Batch.of([[3, 4, 5, 6], [7]], [[4, 5], [3, 6, 7, 8]])
    (decoded, memory), (expected, other) = run(backwards, given), run(plain, turned)
    assert_close(decoded.features, expected.features)
    # The memory stays in the order of the source, and so do the weights on it.
    for row, length in enumerate(given.source.mask.sum(1)):
        assert_close(memory["values"][row, :length], other["values"][row, :length].flip(0))
        if decoded.attention is not None:
            assert_close(decoded.attention[row, :, :length], expected.attention[row, :, :length].flip(-1))
    assert torch.equal(memory["source"], given.source.values)
    assert torch.equal(memory.mask, given.source.mask)


@pytest.mark.parametrize(
    ("settings", "encoder", "decoder"),
    [
        ({"decoder.cell": "gru"}, "2 × lstm (h, c) of width 4", "2 × gru (h) of width 4"),
        ({"encoder.layers": 1}, "1 × lstm (h, c) of width 4", "2 × lstm (h, c) of width 4"),
        ({"encoder.size": 6}, "2 × lstm (h, c) of width 6", "2 × lstm (h, c) of width 4"),
        ({"encoder.bidirectional": True}, "2 × lstm (h, c) of width 8", "2 × lstm (h, c) of width 4"),
        ({"encoder": {"name": "transformer"}}, "none", "2 × lstm (h, c) of width 4"),
    ],
    ids=["cell", "layers", "width", "directions", "no state"],
)
def test_a_state_that_does_not_fit_is_refused_with_both_named(settings, encoder, decoder):
    with pytest.raises(SizeError) as error:
        built("luong", **settings)
    assert f"the encoder ends with {encoder} and the decoder starts with {decoder}" in str(error.value)


def test_a_state_of_both_directions_side_by_side_fits():
    built("luong", **{"encoder.bidirectional": True, "encoder.size": SIZE // 2})


@pytest.mark.parametrize("bridge", ["state", "perceptron"])
def test_a_decoder_without_a_state_wants_no_bridge(bridge):
    with pytest.raises(SizeError, match="use bridge 'none'"):
        built("transformer", bridge=bridge)


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("current", [False, True])
def test_attention_to_the_past(current, feeding):
    settings = {"decoder.include_current": current, "decoder.readout": "context", "decoder.input_feeding": feeding}
    model = built("attention-lm", lm=True, **settings)
    decoded, _ = run(model, batch(lm=True))
    seen = decoded.attention[0] > 0
    T = len(seen)
    expected = torch.ones(T, T, dtype=torch.bool).tril(0 if current else -1)[:, : seen.shape[1]]
    assert torch.equal(seen, expected)
    assert bool(decoded.features[:, 0].any()) == current, "at t = 1 the past is empty, and the context zero"
    assert decoded.features[:, 1:].any()


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
def test_weights_on_the_past_have_one_shape_in_every_wiring(feeding):
    """B T T: one column for every state there is."""
    decoded, _ = run(built("attention-lm", lm=True, **{"decoder.input_feeding": feeding}), batch(lm=True))
    assert decoded.attention.shape == (2, 5, 5)


@torch.no_grad()
def test_a_transformer_keeps_keys_and_values_of_every_step():
    model = built("transformer", **{"encoder.layers": 2, "decoder.layers": 2})
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
def test_the_future_is_not_seen(preset):
    lm = preset == "attention-lm"
    model = built(preset, lm=lm)
    given = batch(lm)
    memory = model.encode(given)
    inputs = shift(model.output.start(memory), given.target)
    other = inputs.clone()
    other[:, 3:] = 8
    before, after = model(inputs, memory).features, model(other, memory).features
    assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_tied_embeddings_are_one_parameter():
    model = built("luong", **{"output.tied": True})
    assert [name for name, _ in model.output.named_parameters()] == ["bias", "embedding.weight"]
    f = torch.randn(3, SIZE, dtype=torch.double)
    assert_close(model.output.logits(f), f @ model.output.embedding.weight.t() + model.output.bias)


def test_tied_embeddings_of_another_size_are_refused():
    with pytest.raises(SizeError, match="tied embeddings of size 3 can't read features of size 4"):
        built("luong", **{"output.tied": True, "output.size": 3})


@pytest.mark.parametrize("tied", [False, True])
def test_shared_embeddings_are_one_parameter(tied):
    model = built("luong", share_embeddings=True, **{"output.tied": tied})
    own = built("luong", **{"output.tied": tied})
    assert model.source.embedding is model.output.embedding
    assert len(list(model.parameters())) == len(list(own.parameters())) - 1
    model.loss(batch()).total.backward()
    gradient = model.source.embedding.weight.grad
    assert gradient[8].any(), "8 is in a source only"
    assert gradient[1].any(), "START is fed to the decoder only"


@pytest.mark.parametrize("target", [V, V + 1])
def test_shared_embeddings_of_two_sizes_are_refused(target):
    with pytest.raises(OptionError) as error:
        build_model(
            "luong",
            sizes={"source": V, "target": target},
            size=SIZE,
            settings={"share_embeddings": True, "source.size": SIZE if target > V else 3},
        )
    assert "share_embeddings needs one vocabulary and one size" in str(error.value)
    assert str((target, SIZE)) in str(error.value)


def test_an_encoder_decoder_wants_a_source():
    with pytest.raises(InputError, match="needs a source, and this batch has none"):
        built("cho").loss(batch(lm=True))


def test_a_symbol_outside_the_vocabulary_is_named():
    with pytest.raises(SizeError, match=f"to {V}, but the vocabulary from 0 to {V - 1}"):
        built("cho").loss(Batch.of([[3]], [[V]]))


@pytest.mark.parametrize("preset", ["luong", "bahdanau"])
def test_steps_on_a_memory_without_gradients_still_teach_the_decoder(preset):
    """A frozen encoder: what was folded into its memory hid the decoder's own weights from the gradient."""
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=8)
    batch = Batch.of([[4, 5]], [[6, 7, 8]])
    with torch.no_grad():
        memory = model.encode(batch)
        state = model.initial_state(memory)
    model.step(torch.tensor([START]), state, memory).features.sum().backward()
    by_step = {name: p.grad for name, p in model.decoder.named_parameters()}
    model.zero_grad()
    model(torch.tensor([[START]]), memory).features.sum().backward()
    for name, parameter in model.decoder.named_parameters():
        if parameter.grad is not None:
            assert_close(by_step[name], parameter.grad)


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
def test_the_context_in_place_of_the_state(feeding):
    model = built("luong", **{"decoder.readout": "context", "decoder.input_feeding": feeding})
    decoded, memory = run(model, batch())
    assert_close(decoded.features, decoded.attention @ memory["values"])


@torch.no_grad()
@pytest.mark.parametrize("encoder", ["recurrent", "transformer"])
def test_the_mean_of_a_source_is_over_its_real_steps(encoder):
    options = {"name": "recurrent", "summary": "mean", "bidirectional": True} if encoder == "recurrent" else {
        "name": "transformer", "heads": 2, "layers": 1}  # fmt: skip
    memory = built("cho", encoder=options).encode(batch())
    for row, length in enumerate((2, 4)):
        assert_close(memory["summary"][row], memory["values"][row, :length].sum(0) / length)


@torch.no_grad()
def test_the_final_summary_has_the_last_state_of_both_directions():
    memory = built("cho", **{"encoder.bidirectional": True}).encode(batch())
    for row, length in enumerate((2, 4)):
        ahead, back = memory["values"][row, length - 1, :SIZE], memory["values"][row, 0, SIZE:]
        assert_close(memory["summary"][row], torch.cat((ahead, back)))


@torch.no_grad()
@pytest.mark.parametrize("feeding", [False, True])
def test_dropout_of_a_decoder_is_between_its_layers_and_on_its_features(feeding):
    """With nothing left of either, the second layer hears only itself, and features are zero."""
    settings = {"decoder.input_feeding": feeding, "decoder.readout": "sum", "decoder.dropout": 0.999999}
    model = built("luong", **settings).train()
    heard = {}

    def probe(name, tensor):
        heard[name] = tensor
        return tensor

    torch.manual_seed(0)
    decoded, memory = run(model, batch(), probe=probe)
    assert not decoded.features.any()
    cell = model.decoder.cells[1]
    state = tuple(model.initial_state(memory)[f"1.{part}"] for part in ("h", "c"))
    for t in range(decoded.features.shape[1]):
        h, state = cell(cell.project(torch.zeros(2, SIZE, dtype=torch.double)), state)
        assert_close(heard[f"decoder.1.h[{t}]"], h)
    assert heard["decoder.0.h[0]"].any()


@pytest.mark.parametrize("preset", ["luong", "bahdanau", "transformer", "attention-lm", "cho"])
def test_a_target_can_be_gone_through_in_two_pieces(preset):
    torch.manual_seed(2)
    source = preset != "attention-lm"
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=8)
    model = model.double().eval()
    batch = Batch.of([[4, 5, 6, 7], [8, 4, 5, 6]], [[4, 5], [6]] if source else None)
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    state = model.initial_state(memory)
    for t in range(2):
        state = model.step(inputs[:, t], state, memory).state
    rest = model.decoder(model.output.feed(inputs[:, 2:]), state, memory)
    torch.testing.assert_close(rest.features, model(inputs, memory).features[:, 2:])


def test_a_batch_may_have_no_target_yet():
    model = build_model("luong", sizes={"source": 9, "target": 9}, size=4)
    batch = Batch.of(sources=[[4, 5], [6]])
    memory = model.encode(batch)
    assert memory.rows == 2
    with pytest.raises(InputError, match="needs a target"):
        model.loss(batch)
    with pytest.raises(InputError, match="at least one field"):
        Batch({})
    with pytest.raises(InputError, match="no source"):
        build_model("attention-lm", sizes={"target": 9}, size=4).encode(batch)


@pytest.mark.parametrize("preset", ["luong", "cho", "transformer"])
def test_rows_that_are_no_beams_of_the_sentences_are_refused(preset):
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=4)
    memory = model.encode(Batch.of(sources=[[4, 5], [6]]))
    state = model.initial_state(memory).select(torch.tensor([0, 0, 1]))
    with pytest.raises(SizeError, match="3 rows can't be beams of 2 sentences"):
        model.step(torch.tensor([4, 4, 4]), state, memory)


def test_a_summary_that_nothing_reads_is_refused():
    with pytest.raises(OptionError, match="summary='mean' has no use"):
        build_model("luong", sizes={"source": 9, "target": 9}, size=4, settings={"encoder.summary": "mean"})


def test_noise_is_drawn_only_for_what_is_fed_back(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "seqloom.nn.dropout.noise", lambda shape, p, like: drawn.append(shape) or like.new_ones(shape)
    )
    for preset, shapes in (("bahdanau", [(2, 3, 4)]), ("luong", [(2, 3, 4)])):
        model = build_model(
            preset,
            sizes={"source": 9, "target": 9},
            size=4,
            settings={"decoder.dropout": 0.5, "decoder.layers": 1, "encoder.layers": 1},
        ).train()
        drawn.clear()
        model.loss(Batch.of([[4, 5], [6, 7]], [[4, 5], [6, 7]]))
        assert [tuple(shape) for shape in drawn] == shapes

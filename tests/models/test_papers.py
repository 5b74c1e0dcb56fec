"""Presets compared with their papers: a forward pass transcribed from the equations, with the model's weights."""

import pytest
import torch
from torch import sigmoid, tanh
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import shift
from seqloom.models.decoders.transformer import TransformerDecoder

V, H = 9, 4
SOURCE, TARGET = [5, 3, 8, 4], [6, 7, 3]


@pytest.fixture
def built():
    def build(preset: str, **overrides):
        torch.manual_seed(3)
        model = build_model(preset, sizes={"source": V, "target": V}, hidden_size=H, overrides=overrides)
        for parameter in model.parameters():
            torch.nn.init.uniform_(parameter, -0.9, 0.9)
        return model.double().eval().requires_grad_(False)

    return build


def logits(model) -> torch.Tensor:
    """The model's logits for the sentence, T V."""
    batch = Batch.from_lists([TARGET], [SOURCE])
    memory = model.encode(batch)
    return model.output.logits(model(shift(model.output.start(memory), batch.target), memory).features)[0]


def gru(cell, x, h, *, reset_after=False):
    """Cho et al. 2014, appendix A, with x all inputs concatenated; z is the share of the new state.

    reset_after: as in the decoder's equations, r multiplies U h.
    """
    W_r, W_z, W = torch.cat(tuple(cell.inputs), 1).chunk(3)
    U_r, U_z, U = cell.recurrent.chunk(3)
    b_r, b_z, b = cell.bias.chunk(3)
    r = sigmoid(W_r @ x + U_r @ h + b_r)
    z = sigmoid(W_z @ x + U_z @ h + b_z)
    past = r * (U @ h + cell.candidate_bias) if reset_after else U @ (r * h)
    return (1 - z) * h + z * tanh(W @ x + past + b)


def lstm(cell, x, state):
    W_i, W_f, W_g, W_o = torch.cat(tuple(cell.inputs), 1).chunk(4)
    U_i, U_f, U_g, U_o = cell.recurrent.chunk(4)
    b_i, b_f, b_g, b_o = cell.bias.chunk(4)
    h, c = state
    i, f, o = (sigmoid(W @ x + U @ h + b) for W, U, b in ((W_i, U_i, b_i), (W_f, U_f, b_f), (W_o, U_o, b_o)))
    c = f * c + i * tanh(W_g @ x + U_g @ h + b_g)
    return o * tanh(c), c


def peephole_lstm(cell, x, state):
    """Graves 2013, equations 7 to 11: the gates also see the cell state."""
    W_i, W_f, W_c, W_o = torch.cat(tuple(cell.inputs), 1).chunk(4)
    U_i, U_f, U_c, U_o = cell.recurrent.chunk(4)
    b_i, b_f, b_c, b_o = cell.bias.chunk(4)
    p_i, p_f, p_o = cell.peepholes
    h, c = state
    i = sigmoid(W_i @ x + U_i @ h + p_i * c + b_i)
    f = sigmoid(W_f @ x + U_f @ h + p_f * c + b_f)
    c = f * c + i * tanh(W_c @ x + U_c @ h + b_c)
    o = sigmoid(W_o @ x + U_o @ h + p_o * c + b_o)
    return o * tanh(c), c


def lstm_stack(cells, x, states, step=lstm):
    """One step of several layers: the output of the top layer and all new states."""
    new = []
    for cell, state in zip(cells, states, strict=True):
        new.append(step(cell, x, state))
        x = new[-1][0]
    return x, new


def embedded(model):
    """Embeddings of the source, and of BOS and the target (the decoder's inputs)."""
    scale = H**0.5 if isinstance(model.decoder, TransformerDecoder) else 0.25 * H**0.5
    return scale * model.source_embedder.embedding.weight[SOURCE], scale * model.output.embedding.weight[[1, *TARGET]]


def maxout(linear, *inputs):
    """Cho et al. 2014: the maximum of each pair of units (here units n and n + H)."""
    t = linear.weight @ torch.cat(inputs) + linear.bias
    return torch.stack((t[:H], t[H:])).max(0).values


def softmax_input(model, features):
    return model.output.weight @ features + model.output.bias


def test_cho(built):
    model = built("cho")
    x, y = embedded(model)
    h = torch.zeros(H, dtype=torch.double)
    for x_t in x:
        h = gru(model.encoder.recurrent.cells[0], x_t, h)
    c = h
    s = tanh(model.bridge.linear.weight @ c + model.bridge.linear.bias)
    expected = []
    for y_t in y:
        s = gru(model.decoder.cells[0], torch.cat((y_t, c)), s, reset_after=True)
        expected.append(softmax_input(model, maxout(model.decoder.readout.linear, y_t, s, c)))
    assert_close(logits(model), torch.stack(expected), rtol=0, atol=1e-10)


def test_bahdanau(built):
    model = built("bahdanau")
    x, y = embedded(model)
    ahead, back = model.encoder.recurrent.cells
    forwards, backwards = [], []
    h = torch.zeros(H, dtype=torch.double)
    for x_t in x:
        h = gru(ahead, x_t, h)
        forwards.append(h)
    h = torch.zeros(H, dtype=torch.double)
    for x_t in x.flip(0):
        h = gru(back, x_t, h)
        backwards.insert(0, h)
    annotations = [torch.cat(two) for two in zip(forwards, backwards, strict=True)]
    s = tanh(model.bridge.linear.weight @ backwards[0] + model.bridge.linear.bias)
    score = model.decoder.attention.score
    W, U, b, v = score.query.weight, score.key.weight, score.query.bias, score.v
    expected = []
    for y_t in y:
        e = torch.stack([v @ tanh(W @ s + U @ h_j + b) for h_j in annotations])
        alpha = e.exp() / e.exp().sum()
        c = sum(a * h_j for a, h_j in zip(alpha, annotations, strict=True))
        s = gru(model.decoder.cells[0], torch.cat((y_t, c)), s)
        expected.append(softmax_input(model, maxout(model.decoder.readout.linear, y_t, s, c)))
    assert_close(logits(model), torch.stack(expected), rtol=0, atol=1e-10)


def zero_states(cells):
    return [(torch.zeros(H, dtype=torch.double), torch.zeros(H, dtype=torch.double)) for _ in cells]


def test_luong(built):
    model = built("luong")
    x, y = embedded(model)
    cells = list(model.encoder.recurrent.cells)
    assert len(cells) == len(model.decoder.cells) == 4
    states, source = zero_states(cells), []
    for x_t in x.flip(0):
        h, states = lstm_stack(cells, x_t, states)
        source.append(h)
    attended = torch.zeros(H, dtype=torch.double)
    W_a, W_c = model.decoder.attention.score.weight, model.decoder.readout.linear.weight
    expected = []
    for y_t in y:
        h_t, states = lstm_stack(model.decoder.cells, torch.cat((y_t, attended)), states)
        scores = torch.stack([h_t @ W_a @ h_s for h_s in source])
        a_t = scores.exp() / scores.exp().sum()
        c_t = sum(a * h_s for a, h_s in zip(a_t, source, strict=True))
        attended = tanh(W_c @ torch.cat((h_t, c_t)))  # the paper joins [c; h]: a matter of W's columns
        expected.append(softmax_input(model, attended))
    assert_close(logits(model), torch.stack(expected), rtol=0, atol=1e-10)


def test_sutskever(built):
    model = built("sutskever")
    x, y = embedded(model)
    cells = list(model.encoder.recurrent.cells)
    assert len(cells) == len(model.decoder.cells) == 4
    states = zero_states(cells)
    for x_t in x.flip(0):
        _, states = lstm_stack(cells, x_t, states, peephole_lstm)
    expected = []
    for y_t in y:
        h, states = lstm_stack(model.decoder.cells, y_t, states, peephole_lstm)
        expected.append(softmax_input(model, h))
    assert_close(logits(model), torch.stack(expected), rtol=0, atol=1e-10)


def test_attention_lm():
    """Additive attention over the past states; at the first step the context is zero."""
    torch.manual_seed(0)
    model = build_model("attention-lm", sizes={"target": V}, hidden_size=H)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.9, 0.9)
    model = model.double().eval().requires_grad_(False)
    batch = Batch.from_lists([TARGET])
    memory = model.encode(batch)
    features = model(shift(model.output.start(memory), batch.target), memory).features[0]
    score, W = model.decoder.attention.score, model.decoder.readout.linear.weight
    state, past = zero_states([0])[0], []
    for t, y_t in enumerate(0.25 * H**0.5 * model.output.embedding.weight[[1, *TARGET]]):
        state = lstm(model.decoder.cells[0], y_t, state)
        h = state[0]
        context = torch.zeros(H, dtype=torch.double)
        if past:
            query = score.query.weight @ h + score.query.bias
            e = torch.stack([score.v @ tanh(query + score.key.weight @ p) for p in past])
            context = (e.softmax(0)[:, None] * torch.stack(past)).sum(0)
        past.append(h)
        assert_close(features[t], tanh(W @ torch.cat((h, context))), rtol=0, atol=1e-10)


def test_transformer_base_has_6_layers_and_8_heads():
    model = build_model("transformer", sizes={"source": V, "target": V}, hidden_size=16)
    for stack in (model.encoder.layers, model.decoder.layers):
        assert len(stack) == 6
        assert {layer.self_attention.heads for layer in stack} == {8}
        assert {layer.feed_forward[0].out_features for layer in stack} == {4 * 16}
    assert {layer.cross_attention.heads for layer in model.decoder.layers} == {8}
    assert model.output.label_smoothing == 0.1
    assert model.output.tie_output_embeddings


def test_transformer_sub_layers_are_post_norm(built):
    """x ← norm(x + f(x)) for every sub-layer, and no final norm; embeddings times √size."""
    model = built(
        "transformer",
        **{"encoder.layers": 1, "encoder.heads": 1, "encoder.positional_encoding": "none", "decoder.heads": 1},
    )
    layer = model.encoder.layers[0]
    x = model.source_embedder.embedding.weight[SOURCE] * H**0.5
    m = layer.self_attention
    q, k, v = m.query(x), x @ m.key.weight.t(), m.value(x)
    x = layer.self_path.norm(x + m.out((q @ k.t() / H**0.5).softmax(-1) @ v))
    W_1, W_2 = layer.feed_forward[0], layer.feed_forward[3]
    x = layer.feed_path.norm(x + W_2(W_1(x).clamp(min=0)))
    assert_close(model.encode(Batch.from_lists([TARGET], [SOURCE]))["values"][0], x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer(built, norm):
    """The whole model, built from torch.nn's layers, with embeddings and positions written out."""
    overrides = {f"{part}.{name}": value for part in ("encoder", "decoder")
                 for name, value in (("layers", 2), ("heads", 2), ("ff_size", 6), ("layer_norm", norm))}  # fmt: skip
    model = built("transformer", **overrides)

    def add_positions(e):
        t, i = torch.arange(len(e), dtype=torch.double)[:, None], torch.arange(0, H, 2, dtype=torch.double)
        angles = t / 10000 ** (i / H)
        return e + torch.stack((angles.sin(), angles.cos()), -1).flatten(1)

    def stack(ours, kind, *more):
        layers = []
        for layer in ours.layers:
            theirs = kind(H, 2, 6, dropout=0.0, batch_first=True, norm_first=norm == "pre", dtype=torch.double)
            attentions = [(layer.self_attention, theirs.self_attn)]
            paths = [layer.self_path, layer.feed_path]
            if more:
                attentions.append((layer.cross_attention, theirs.multihead_attn))
                paths.insert(1, layer.cross_path)
            for mine, yours in attentions:
                key_bias = torch.zeros(H, dtype=torch.double)
                yours.in_proj_weight.data = torch.cat([mine.query.weight, mine.key.weight, mine.value.weight])
                yours.in_proj_bias.data = torch.cat([mine.query.bias, key_bias, mine.value.bias])
                yours.out_proj.load_state_dict(mine.out.state_dict())
            theirs.linear1.load_state_dict(layer.feed_forward[0].state_dict())
            theirs.linear2.load_state_dict(layer.feed_forward[-1].state_dict())
            for n, path in enumerate(paths, start=1):
                getattr(theirs, f"norm{n}").load_state_dict(path.norm.state_dict())
            layers.append(theirs.eval().requires_grad_(False))
        return layers

    x, y = (add_positions(e)[None] for e in embedded(model))
    for layer in stack(model.encoder, torch.nn.TransformerEncoderLayer):
        x = layer(x)
    if norm == "pre":
        x = torch.nn.functional.layer_norm(x, (H,), model.encoder.norm.weight, model.encoder.norm.bias)
    later = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
    for layer in stack(model.decoder, torch.nn.TransformerDecoderLayer, x):
        y = layer(y, x, tgt_mask=later)
    if norm == "pre":
        y = torch.nn.functional.layer_norm(y, (H,), model.decoder.norm.weight, model.decoder.norm.bias)
    weight = model.output.output_weight
    assert_close(logits(model), y[0] @ weight.t() + model.output.bias, rtol=0, atol=1e-10)


def test_context_input_of_the_second_layer(built):
    """The first layer's state is the query, and the second layer reads [s¹; a]."""
    model = built(
        "luong",
        **{
            "source_embedder.reverse": False,
            "encoder.layers": 2,
            "decoder.layers": 2,
            "decoder.context_input": "second_layer",
            "decoder.input_feeding": False,
            "decoder.readout": "state",
        },
    )
    x, y = embedded(model)
    cells = list(model.encoder.recurrent.cells)
    states, source = zero_states(cells), []
    for x_t in x:
        h, states = lstm_stack(cells, x_t, states)
        source.append(h)
    W_a = model.decoder.attention.score.weight
    below, above = model.decoder.cells
    first, second = states
    expected = []
    for y_t in y:
        first = lstm(below, y_t, first)
        scores = torch.stack([first[0] @ W_a @ h_s for h_s in source])
        c_t = sum(a * h_s for a, h_s in zip(scores.softmax(0), source, strict=True))
        second = lstm(above, torch.cat((first[0], c_t)), second)
        expected.append(softmax_input(model, second[0]))
    assert_close(logits(model), torch.stack(expected), rtol=0, atol=1e-10)

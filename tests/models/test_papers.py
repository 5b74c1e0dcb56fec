"""Presets against their papers: one forward pass, written straight from the equations, with the model's weights."""

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
    def build(preset: str, **settings):
        torch.manual_seed(3)
        model = build_model(preset, sizes={"source": V, "target": V}, size=H, settings=settings)
        for parameter in model.parameters():
            torch.nn.init.uniform_(parameter, -0.9, 0.9)
        return model.double().eval().requires_grad_(False)

    return build


def logits(model) -> torch.Tensor:
    """What the model gives for the one sentence, T V."""
    batch = Batch.of([TARGET], [SOURCE])
    memory = model.encode(batch)
    return model.output.logits(model(shift(model.output.start(memory), batch.target), memory).features)[0]


def gru(cell, x, h):
    """Cho et al. 2014, appendix A, with x all inputs joined; z is how much is new."""
    W_r, W_z, W = torch.cat(tuple(cell.inputs), 1).chunk(3)
    U_r, U_z, U = cell.recurrent.chunk(3)
    b_r, b_z, b = cell.bias.chunk(3)
    r = sigmoid(W_r @ x + U_r @ h + b_r)
    z = sigmoid(W_z @ x + U_z @ h + b_z)
    return (1 - z) * h + z * tanh(W @ x + U @ (r * h) + b)


def lstm(cell, x, state):
    W_i, W_f, W_g, W_o = torch.cat(tuple(cell.inputs), 1).chunk(4)
    U_i, U_f, U_g, U_o = cell.recurrent.chunk(4)
    b_i, b_f, b_g, b_o = cell.bias.chunk(4)
    h, c = state
    i, f, o = (sigmoid(W @ x + U @ h + b) for W, U, b in ((W_i, U_i, b_i), (W_f, U_f, b_f), (W_o, U_o, b_o)))
    c = f * c + i * tanh(W_g @ x + U_g @ h + b_g)
    return o * tanh(c), c


def lstm_stack(cells, x, states):
    """One step of several layers: the top output and all new states."""
    new = []
    for cell, state in zip(cells, states, strict=True):
        new.append(lstm(cell, x, state))
        x = new[-1][0]
    return x, new


def embedded(model):
    """Embeddings of the source, and of START and the target: what is read, and what is fed."""
    scale = H**0.5 if isinstance(model.decoder, TransformerDecoder) else 0.25 * H**0.5
    return scale * model.source.embedding.weight[SOURCE], scale * model.output.embedding.weight[[1, *TARGET]]


def maxout(linear, *inputs):
    """Cho et al. 2014: the greater of each two units (here unit n and unit n + H make the pair)."""
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
        s = gru(model.decoder.cells[0], torch.cat((y_t, c)), s)
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
    assert len(cells) == len(model.decoder.cells) == 2
    states, source = zero_states(cells), []
    for x_t in x:
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
        _, states = lstm_stack(cells, x_t, states)
    expected = []
    for y_t in y:
        h, states = lstm_stack(model.decoder.cells, y_t, states)
        expected.append(softmax_input(model, h))
    assert_close(logits(model), torch.stack(expected), rtol=0, atol=1e-10)


def test_attention_lm():
    """Additive attention to the states before, and none of it at the first step."""
    torch.manual_seed(0)
    model = build_model("attention-lm", sizes={"target": V}, size=H)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.9, 0.9)
    model = model.double().eval().requires_grad_(False)
    batch = Batch.of([TARGET])
    memory = model.encode(batch)
    found = model(shift(model.output.start(memory), batch.target), memory).features[0]
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
        assert_close(found[t], tanh(W @ torch.cat((h, context))), rtol=0, atol=1e-10)


def test_transformer_layer_order(built):
    """Post-norm: x ← norm(x + f(x)) for every sub-layer, and no norm on top; embeddings times √size."""
    model = built("transformer", **{"encoder.layers": 1, "encoder.heads": 1, "encoder.positions": "none"})
    layer = model.encoder.layers[0]
    x = model.source.embedding.weight[SOURCE] * H**0.5
    m = layer.self_attention
    q, k, v = m.query(x), x @ m.key.weight.t(), m.value(x)
    x = layer.self_path.norm(x + m.out((q @ k.t() / H**0.5).softmax(-1) @ v))
    W_1, W_2 = layer.feed_forward[0], layer.feed_forward[3]
    x = layer.feed_path.norm(x + W_2(W_1(x).clamp(min=0)))
    assert_close(model.encode(Batch.of([TARGET], [SOURCE]))["values"][0], x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["before", "after"])
def test_transformer(built, norm):
    """The whole of it on torch.nn's layers, with embeddings and positions written out."""
    settings = {f"{part}.{name}": value for part in ("encoder", "decoder")
                for name, value in (("layers", 2), ("heads", 2), ("feed_forward", 6), ("norm", norm))}  # fmt: skip
    model = built("transformer", **settings)

    def placed(e):
        t, i = torch.arange(len(e), dtype=torch.double)[:, None], torch.arange(0, H, 2, dtype=torch.double)
        angles = t / 10000 ** (i / H)
        return e + torch.stack((angles.sin(), angles.cos()), -1).flatten(1)

    def stack(ours, kind, *more):
        layers = []
        for layer in ours.layers:
            theirs = kind(H, 2, 6, dropout=0.0, batch_first=True, norm_first=norm == "before", dtype=torch.double)
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

    x, y = (placed(e)[None] for e in embedded(model))
    for layer in stack(model.encoder, torch.nn.TransformerEncoderLayer):
        x = layer(x)
    if norm == "before":
        x = torch.nn.functional.layer_norm(x, (H,), model.encoder.norm.weight, model.encoder.norm.bias)
    later = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
    for layer in stack(model.decoder, torch.nn.TransformerDecoderLayer, x):
        y = layer(y, x, tgt_mask=later)
    if norm == "before":
        y = torch.nn.functional.layer_norm(y, (H,), model.decoder.norm.weight, model.decoder.norm.bias)
    weight = model.output.output_weight
    assert_close(logits(model), y[0] @ weight.t() + model.output.bias, rtol=0, atol=1e-10)


def test_context_into_the_layer_above(built):
    """The first layer's state asks, and the second layer reads [s¹; a]."""
    model = built("luong", **{"decoder.into": "above", "decoder.input_feeding": False, "decoder.readout": "state"})
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

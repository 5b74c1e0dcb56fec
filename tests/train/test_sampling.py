"""Scheduled sampling: the teacher forcing ratio compared with the formulas of the paper, the loss with rollouts."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import BOS, EOS
from seqloom.errors import ConfigError, InputError
from seqloom.registry import build, options, parts
from seqloom.train.objectives.scheduled_sampling import scheduled_loss

V = 9
TRANSFORMER_LM = {"type": "language_model", "decoder": {"name": "transformer", "layers": 2, "heads": 2}}
MODELS = ["bahdanau", "cho", "luong", "sutskever", "transformer", "attention-lm", TRANSFORMER_LM]
every_model = pytest.mark.parametrize(
    "description", MODELS, ids=lambda d: d if isinstance(d, str) else "transformer-lm"
)
ALMOST_1 = 1 - 1e-12
"""Runs the step-by-step loop, but always feeds the reference."""


def built(description, **settings):
    torch.manual_seed(3)
    settings = {"output.label_smoothing": 0.0, **settings}
    model = build_model(
        description, sizes={"source": V, "target": V}, hidden_size=8, dropout=0.0, overrides=settings
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch_for(model, rows: int = 3) -> Batch:
    has_source = hasattr(model, "encoder")
    targets = [[3, 4, 5, 6, 7, 8], [], [7, 4]] * (rows // 3)
    return Batch.from_lists(targets, [[5, 4], [8, 7, 6, 3, 4], [3]] * (rows // 3) if has_source else None)


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def assert_same_loss(model, actual, expected) -> None:
    assert_close(actual, expected, rtol=1e-9, atol=1e-11)
    pairs = zip(gradients(model, actual), gradients(model, expected), strict=True)
    for (name, _), (a, e) in zip(model.named_parameters(), pairs, strict=True):
        assert_close(a, e, rtol=1e-8, atol=1e-11, msg=lambda m, name=name: f"gradient of {name}: {m}")


def record_inputs(model, monkeypatch) -> list[torch.Tensor]:
    """A list that collects the input tokens of the model, step by step."""
    fed: list[torch.Tensor] = []
    feed = model.output.feed

    def spy(value):
        fed.append(value)
        return feed(value)

    monkeypatch.setattr(model.output, "feed", spy)
    return fed


@pytest.mark.parametrize("teacher_forcing_ratio", [1, 1.0, ALMOST_1])
@every_model
def test_ratio_of_one_is_teacher_forcing(description, teacher_forcing_ratio):
    model = built(description)
    batch = batch_for(model)
    loss = scheduled_loss(model, batch, teacher_forcing_ratio)
    assert loss.steps == batch.target.mask.sum()
    assert_same_loss(model, loss.total, model.loss(batch).total)


@every_model
def test_ratio_of_zero_is_greedy_rollout(description):
    """Row by row: each step recomputes the whole prefix in parallel, with PyTorch's cross-entropy."""
    model = built(description)
    batch = batch_for(model)
    expected = 0.0
    for row in range(len(batch.target.values)):
        T = int(batch.target.mask[row].sum())
        target = batch.target.values[row : row + 1, :T]
        one = Batch.from_lists([target[0, :-1].tolist()])
        if batch.source is not None:
            S = int(batch.source.mask[row].sum())
            one = Batch.from_lists([target[0, :-1].tolist()], [batch.source.values[row, :S].tolist()])
        memory = model.encode(one)
        written = torch.tensor([[BOS]])
        for _ in range(T - 1):
            logits = model.output.logits(model(written, memory).features[:, -1])
            written = torch.cat((written, logits.argmax(-1, keepdim=True)), 1)
        logits = model.output.logits(model(written, memory).features)
        expected = expected + F.cross_entropy(logits[0], target[0], reduction="sum")
    assert_same_loss(model, scheduled_loss(model, batch, 0.0).total, expected)


@every_model
def test_decoding_continues_after_predicted_eos(description, monkeypatch):
    model = built(description)
    with torch.no_grad():
        model.output.bias[EOS] += 100
    batch = batch_for(model)
    memory = model.encode(batch)
    inputs = torch.full_like(batch.target.values, EOS)
    inputs[:, 0] = BOS
    logits = model.output.logits(model(inputs, memory).features)
    expected = F.cross_entropy(logits[batch.target.mask], batch.target.values[batch.target.mask], reduction="sum")
    fed = record_inputs(model, monkeypatch)
    loss = scheduled_loss(model, batch, 0.0)
    assert torch.equal(torch.stack(fed, 1), inputs)
    assert_close(loss.total, expected)


def test_each_token_is_sampled_independently(monkeypatch):
    model = built("sutskever")
    with torch.no_grad():
        model.output.bias[V - 1] += 100  # the model always predicts this token
    B, T, teacher_forcing_ratio = 200, 60, 0.7
    batch = Batch.from_lists([[4] * T] * B, [[3]] * B)
    fed = record_inputs(model, monkeypatch)
    torch.manual_seed(0)
    with torch.no_grad():
        scheduled_loss(model, batch, teacher_forcing_ratio)
    fed_BT = torch.stack(fed, 1)
    assert (fed_BT[:, 0] == BOS).all()
    own_BT = fed_BT[:, 1:] == V - 1
    assert ((fed_BT[:, 1:] == 4) | own_BT).all()

    def is_expected(share, n):
        return (
            (share - (1 - teacher_forcing_ratio)).abs()
            < 5 * math.sqrt(teacher_forcing_ratio * (1 - teacher_forcing_ratio) / n)
        ).all()

    assert is_expected(own_BT.double().mean(), B * T)
    assert is_expected(own_BT.double().mean(0), B)
    assert is_expected(own_BT.double().mean(1), T)


def test_samples_follow_model_distribution(monkeypatch):
    model = built("sutskever")
    p = torch.tensor([0, 0, 0.1, 0.2, 0.4, 0.3, 0, 0, 0], dtype=torch.float64)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.log(p + 1e-30))
    batch = Batch.from_lists([[4] * 50] * 200, [[3]] * 200)
    fed = record_inputs(model, monkeypatch)
    torch.manual_seed(0)
    scheduled_loss(model, batch, 0.0, feed="sample")
    drawn = torch.stack(fed[1:], 1).flatten()
    counts, n = drawn.bincount(minlength=V), len(drawn)
    assert n == 200 * 50
    assert ((counts - n * p).abs() <= 5 * (n * p * (1 - p)).sqrt()).all()


@pytest.mark.parametrize("feed", ["argmax", "sample"])
def test_random_numbers_come_from_default_generator(feed):
    model = built("luong")
    batch = batch_for(model)
    state = torch.get_rng_state()
    totals = [scheduled_loss(model, batch, 0.5, feed=feed).total.item() for _ in range(8)]
    torch.set_rng_state(state)
    assert [scheduled_loss(model, batch, 0.5, feed=feed).total.item() for _ in range(8)] == totals
    assert len(set(totals)) > 1


@pytest.mark.parametrize("preset", ["luong", "transformer"])
def test_dropout_is_enabled_during_training(preset):
    model = built(preset, **{"decoder.dropout": 0.5})
    batch = batch_for(model)
    assert scheduled_loss(model, batch, 0.0).total != scheduled_loss(model, batch, 0.0).total
    model.eval()
    assert scheduled_loss(model, batch, 0.0).total == scheduled_loss(model, batch, 0.0).total


@pytest.mark.parametrize("teacher_forcing_ratio", [0.0, 1.0])
def test_missing_target_is_rejected(teacher_forcing_ratio):
    model = built("luong")
    with pytest.raises(InputError, match="needs a target"):
        scheduled_loss(model, Batch.from_lists(sources=[[3]]), teacher_forcing_ratio)


@pytest.mark.parametrize(
    ("spec", "formula"),
    [
        ({"name": "constant"}, lambda i: 1.0),
        ({"name": "constant", "teacher_forcing_ratio": 0.25}, lambda i: 0.25),
        ({"name": "linear", "steps": 200}, lambda i: max(0.0, 1 - i / 200)),
        ({"name": "linear", "steps": 200, "minimum": 0.3}, lambda i: max(0.3, 1 - i / 200)),
        ({"name": "exponential", "k": 0.99}, lambda i: 0.99**i),
        ({"name": "exponential", "k": 0.99, "minimum": 0.3}, lambda i: max(0.3, 0.99**i)),
        ({"name": "inverse_sigmoid", "k": 40}, lambda i: 40 / (40 + math.exp(i / 40))),
        ({"name": "inverse_sigmoid", "k": 40, "minimum": 0.3}, lambda i: max(0.3, 40 / (40 + math.exp(i / 40)))),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("start", [0, 30])
def test_ratio_matches_paper(spec, formula, start):
    """Bengio et al. 2015, section 2.4."""
    decay = build("scheduled_sampling", {**spec, "start": start})
    for step in range(1, start + 1):
        assert decay.ratio(step) == 1.0
    for i in (1, 2, 10, 100, 199, 200, 201, 1000, 10_000):
        assert decay.ratio(start + i) == pytest.approx(formula(i), rel=1e-9)


@pytest.mark.parametrize("name", parts("scheduled_sampling"))
def test_ratio_decreases_within_bounds(name):
    decay = build("scheduled_sampling", name)
    ratios = [decay.ratio(step) for step in (1, 10, 1000, 10**5, 10**9)]
    assert ratios == sorted(ratios, reverse=True)
    assert all(0 <= ratio <= 1 for ratio in ratios)
    assert decay.feed == "argmax"
    assert build("scheduled_sampling", {"name": name, "feed": "sample"}).feed == "sample"


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "constant", "teacher_forcing_ratio": 1.5},
        {"name": "exponential", "k": 1.0},
        {"name": "inverse_sigmoid", "k": 0.5},
        {"name": "linear", "steps": 0},
        {"name": "linear", "feed": "beam"},
    ],
    ids=str,
)
def test_invalid_options_are_rejected(spec):
    with pytest.raises(ConfigError):
        build("scheduled_sampling", spec)


@pytest.mark.parametrize("name", parts("scheduled_sampling"))
def test_every_option_is_documented(name):
    cls = parts("scheduled_sampling")[name]
    assert all(f"\n    {option}: " in cls.__doc__ for option in options(cls))

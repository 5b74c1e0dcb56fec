"""Scheduled sampling: its shares against the paper's formulas, its loss against plain roll-outs."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from seqloom import Batch, build_model
from seqloom.batch import END, START
from seqloom.errors import InputError, OptionError
from seqloom.registry import build, options, parts
from seqloom.train.objectives.scheduled_sampling import scheduled_loss

V = 9
TRANSFORMER_LM = {"model": "language_model", "decoder": {"name": "transformer", "layers": 2, "heads": 2}}
MODELS = ["bahdanau", "cho", "luong", "sutskever", "transformer", "attention-lm", TRANSFORMER_LM]
every_model = pytest.mark.parametrize(
    "description", MODELS, ids=lambda d: d if isinstance(d, str) else "transformer-lm"
)
ALMOST_1 = 1 - 1e-12
"""Goes the way of the steps, but its coins always fall on gold."""


def built(description, **settings):
    torch.manual_seed(3)
    settings = {"output.label_smoothing": 0.0, **settings}
    model = build_model(
        description, sizes={"source": V, "target": V}, size=8, dropout=0.0, settings=settings
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch_for(model, rows: int = 3) -> Batch:
    has_source = hasattr(model, "encoder")
    targets = [[3, 4, 5, 6, 7, 8], [], [7, 4]] * (rows // 3)
    return Batch.of(targets, [[5, 4], [8, 7, 6, 3, 4], [3]] * (rows // 3) if has_source else None)


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def same(model, actual, expected) -> None:
    assert_close(actual, expected, rtol=1e-9, atol=1e-11)
    found, wanted = gradients(model, actual), gradients(model, expected)
    for (name, _), a, e in zip(model.named_parameters(), found, wanted, strict=True):
        assert_close(a, e, rtol=1e-8, atol=1e-11, msg=lambda m, name=name: f"gradient of {name}: {m}")


def spied(model, monkeypatch) -> list[torch.Tensor]:
    """Everything that is fed to the model from here on, step by step."""
    fed: list[torch.Tensor] = []
    feed = model.output.feed

    def spy(value):
        fed.append(value)
        return feed(value)

    monkeypatch.setattr(model.output, "feed", spy)
    return fed


@pytest.mark.parametrize("gold", [1, 1.0, ALMOST_1])
@every_model
def test_all_gold_is_teacher_forcing(description, gold):
    model = built(description)
    batch = batch_for(model)
    loss = scheduled_loss(model, batch, gold)
    assert loss.steps == batch.target.mask.sum()
    same(model, loss.total, model.loss(batch).total)


@every_model
def test_no_gold_is_a_greedy_roll_out(description):
    """Row by row and from the beginning at each step, by the whole-target pass, with PyTorch's own cross-entropy."""
    model = built(description)
    batch = batch_for(model)
    expected = 0.0
    for row in range(len(batch.target.values)):
        T = int(batch.target.mask[row].sum())
        target = batch.target.values[row : row + 1, :T]
        one = Batch.of([target[0, :-1].tolist()])
        if batch.source is not None:
            S = int(batch.source.mask[row].sum())
            one = Batch.of([target[0, :-1].tolist()], [batch.source.values[row, :S].tolist()])
        memory = model.encode(one)
        written = torch.tensor([[START]])
        for _ in range(T - 1):
            logits = model.output.logits(model(written, memory).features[:, -1])
            written = torch.cat((written, logits.argmax(-1, keepdim=True)), 1)
        logits = model.output.logits(model(written, memory).features)
        expected = expected + F.cross_entropy(logits[0], target[0], reduction="sum")
    same(model, scheduled_loss(model, batch, 0.0).total, expected)


@every_model
def test_after_an_end_of_its_own_it_goes_on(description, monkeypatch):
    model = built(description)
    with torch.no_grad():
        model.output.bias[END] += 100
    batch = batch_for(model)
    memory = model.encode(batch)
    inputs = torch.full_like(batch.target.values, END)
    inputs[:, 0] = START
    logits = model.output.logits(model(inputs, memory).features)
    expected = F.cross_entropy(logits[batch.target.mask], batch.target.values[batch.target.mask], reduction="sum")
    fed = spied(model, monkeypatch)
    loss = scheduled_loss(model, batch, 0.0)
    assert torch.equal(torch.stack(fed, 1), inputs)
    assert_close(loss.total, expected)


def test_each_token_has_a_coin_of_its_own(monkeypatch):
    model = built("sutskever")
    with torch.no_grad():
        model.output.bias[V - 1] += 100  # what it would always write
    B, T, gold = 200, 60, 0.7
    batch = Batch.of([[4] * T] * B, [[3]] * B)
    fed = spied(model, monkeypatch)
    torch.manual_seed(0)
    with torch.no_grad():
        scheduled_loss(model, batch, gold)
    fed_BT = torch.stack(fed, 1)
    assert (fed_BT[:, 0] == START).all()
    own_BT = fed_BT[:, 1:] == V - 1
    assert ((fed_BT[:, 1:] == 4) | own_BT).all()

    def within(share, n):
        return ((share - (1 - gold)).abs() < 5 * math.sqrt(gold * (1 - gold) / n)).all()

    assert within(own_BT.double().mean(), B * T)
    assert within(own_BT.double().mean(0), B)
    assert within(own_BT.double().mean(1), T)


def test_samples_follow_the_model_s_distribution(monkeypatch):
    model = built("sutskever")
    p = torch.tensor([0, 0, 0.1, 0.2, 0.4, 0.3, 0, 0, 0], dtype=torch.float64)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.log(p + 1e-30))
    batch = Batch.of([[4] * 50] * 200, [[3]] * 200)
    fed = spied(model, monkeypatch)
    torch.manual_seed(0)
    scheduled_loss(model, batch, 0.0, feed="sample")
    drawn = torch.stack(fed[1:], 1).flatten()
    counts, n = drawn.bincount(minlength=V), len(drawn)
    assert n == 200 * 50
    assert ((counts - n * p).abs() <= 5 * (n * p * (1 - p)).sqrt()).all()


@pytest.mark.parametrize("feed", ["argmax", "sample"])
def test_chance_comes_from_the_default_generator(feed):
    model = built("luong")
    batch = batch_for(model)
    state = torch.get_rng_state()
    totals = [scheduled_loss(model, batch, 0.5, feed=feed).total.item() for _ in range(8)]
    torch.set_rng_state(state)
    assert [scheduled_loss(model, batch, 0.5, feed=feed).total.item() for _ in range(8)] == totals
    assert len(set(totals)) > 1


@pytest.mark.parametrize("preset", ["luong", "transformer"])
def test_dropout_stays_on_in_training(preset):
    model = built(preset, **{"decoder.dropout": 0.5})
    batch = batch_for(model)
    assert scheduled_loss(model, batch, 0.0).total != scheduled_loss(model, batch, 0.0).total
    model.eval()
    assert scheduled_loss(model, batch, 0.0).total == scheduled_loss(model, batch, 0.0).total


@pytest.mark.parametrize("gold", [0.0, 1.0])
def test_a_target_is_needed(gold):
    model = built("luong")
    with pytest.raises(InputError, match="needs a target"):
        scheduled_loss(model, Batch.of(sources=[[3]]), gold)


@pytest.mark.parametrize(
    ("spec", "formula"),
    [
        ({"name": "constant"}, lambda i: 1.0),
        ({"name": "constant", "gold": 0.25}, lambda i: 0.25),
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
def test_shares_are_those_of_the_paper(spec, formula, start):
    """Bengio et al. 2015, section 2.4."""
    sampling = build("sampling", {**spec, "start": start})
    for step in range(1, start + 1):
        assert sampling.share(step) == 1.0
    for i in (1, 2, 10, 100, 199, 200, 201, 1000, 10_000):
        assert sampling.share(start + i) == pytest.approx(formula(i), rel=1e-9)


@pytest.mark.parametrize("name", parts("sampling"))
def test_every_share_is_one_for_ever(name):
    sampling = build("sampling", name)
    shares = [sampling.share(step) for step in (1, 10, 1000, 10**5, 10**9)]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1 for share in shares)
    assert sampling.feed == "argmax"
    assert build("sampling", {"name": name, "feed": "sample"}).feed == "sample"


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "constant", "gold": 1.5},
        {"name": "exponential", "k": 1.0},
        {"name": "inverse_sigmoid", "k": 0.5},
        {"name": "linear", "steps": 0},
        {"name": "linear", "feed": "beam"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(spec):
    with pytest.raises(OptionError):
        build("sampling", spec)


@pytest.mark.parametrize("name", parts("sampling"))
def test_every_option_is_explained(name):
    cls = parts("sampling")[name]
    assert all(f"\n    {option}: " in cls.__doc__ for option in options(cls))

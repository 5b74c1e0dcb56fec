"""Optimizers, compared with their published equations in numpy; weight decay and frozen parameters."""

import numpy as np
import pytest
import torch
from torch import nn

from seqloom import build_model
from seqloom.errors import ConfigError, UnknownNameError
from seqloom.registry import build, options, parts

STEPS = 5


def adam(w, gradients, lr, betas, eps, decay, decoupled):
    """Kingma and Ba 2015, algorithm 1; decoupled: Loshchilov and Hutter 2019, algorithm 2, line 12."""
    (b1, b2), m, v = betas, 0.0, 0.0
    for t, g in enumerate(gradients, start=1):
        g = g if decoupled else g + decay * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        shrunk = lr * decay * w if decoupled else 0.0
        w = w - shrunk - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return w


def sgd(w, gradients, lr, momentum, nesterov, decay):
    m = 0.0
    for g in gradients:
        g = g + decay * w
        m = momentum * m + g
        w = w - lr * (g + momentum * m if nesterov else m)
    return w


def adadelta(w, gradients, lr, rho, eps, decay):
    """Zeiler 2012, algorithm 1."""
    v, u = 0.0, 0.0
    for g in gradients:
        g = g + decay * w
        v = rho * v + (1 - rho) * g**2
        d = np.sqrt(u + eps) / np.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d**2
        w = w - lr * d
    return w


CASES = [
    ({"name": "adam"}, lambda w, g, d: adam(w, g, 1e-3, (0.9, 0.999), 1e-8, 0.0, False)),
    (
        {"name": "adam", "lr": 0.1, "betas": [0.8, 0.98], "eps": 1e-3, "weight_decay": 0.2},
        lambda w, g, d: adam(w, g, 0.1, (0.8, 0.98), 1e-3, 0.2 * d, False),
    ),
    ({"name": "adamw"}, lambda w, g, d: adam(w, g, 1e-3, (0.9, 0.999), 1e-8, 0.01 * d, True)),
    (
        {"name": "adamw", "lr": 0.1, "betas": [0.8, 0.98], "eps": 1e-3, "weight_decay": 0.2},
        lambda w, g, d: adam(w, g, 0.1, (0.8, 0.98), 1e-3, 0.2 * d, True),
    ),
    ({"name": "sgd"}, lambda w, g, d: sgd(w, g, 0.1, 0.9, False, 0.0)),
    ({"name": "sgd", "lr": 0.3, "momentum": 0.0}, lambda w, g, d: sgd(w, g, 0.3, 0.0, False, 0.0)),
    (
        {"name": "sgd", "momentum": 0.5, "nesterov": True, "weight_decay": 0.2},
        lambda w, g, d: sgd(w, g, 0.1, 0.5, True, 0.2 * d),
    ),
    ({"name": "adadelta"}, lambda w, g, d: adadelta(w, g, 1.0, 0.95, 1e-6, 0.0)),
    (
        {"name": "adadelta", "lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.2},
        lambda w, g, d: adadelta(w, g, 0.5, 0.8, 1e-3, 0.2 * d),
    ),
]


@pytest.mark.parametrize(("spec", "equations"), CASES, ids=lambda c: str(c) if isinstance(c, dict) else "")
def test_updates_match_equations(spec, equations):
    """The matrix has weight decay, the bias does not."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    before = [p.detach().numpy().copy() for p in model.parameters()]
    optimizer = build("optimizer", spec).build(model)
    gradients = [[torch.randn_like(p) for p in model.parameters()] for _ in range(STEPS)]
    for given in gradients:
        for parameter, gradient in zip(model.parameters(), given, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
    for n, (parameter, decays) in enumerate(zip(model.parameters(), (1.0, 0.0), strict=True)):
        expected = equations(before[n], [given[n].numpy() for given in gradients], decays)
        np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_every_optimizer_is_tested():
    assert {spec["name"] for spec, _ in CASES} == set(parts("optimizer"))


@pytest.mark.parametrize("name", parts("optimizer"))
def test_every_parameter_is_in_one_group(name):
    model = build_model(
        "transformer", sizes={"source": 9, "target": 9}, hidden_size=8, overrides={"share_embeddings": True}
    )
    groups = build("optimizer", {"name": name, "weight_decay": 0.3}).build(model).param_groups
    optimized = [id(p) for group in groups for p in group["params"]]
    assert len(optimized) == len(set(optimized))
    assert set(optimized) == {id(p) for p in model.parameters()}
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for path, parameter in model.named_parameters():
        not_decayed = path.endswith("bias") or "norm" in path
        assert decay[id(parameter)] == (0.0 if not_decayed else 0.3), path


def test_frozen_parameters_are_not_optimized():
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    model[0].requires_grad_(False)
    (group,) = build("optimizer", "adam").build(model).param_groups
    assert {id(p) for p in group["params"]} == {id(p) for p in model[1].parameters()}


@pytest.mark.parametrize("name", parts("optimizer"))
def test_learning_rate_can_be_changed_between_updates(name):
    """A schedule sets it in the groups before each step."""
    part = build("optimizer", {"name": name, "lr": 0.25})
    model = nn.Linear(2, 2)
    optimizer = part.build(model)
    assert {group["lr"] for group in optimizer.param_groups} == {part.lr} == {0.25}
    before = model.weight.detach().clone()
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ({"name": "sgd", "nesterov": True, "momentum": 0.0}, ConfigError, "set momentum above 0"),
        ({"name": "adam", "lr": 0.0}, ConfigError, "lr=0.0"),
        ({"name": "adam", "betas": [0.9, 1.0]}, ConfigError, "betas"),
        ({"name": "adamw", "weight_decay": -0.1}, ConfigError, "weight_decay"),
        ({"name": "adam", "lr": 0.1, "rat": 1}, UnknownNameError, "optimizer 'adam'"),
        ({"name": "adam", "weight_dekay": 0.1}, UnknownNameError, "did you mean 'weight_decay'?"),
        ("adan", UnknownNameError, "did you mean 'adam'?"),
    ],
)
def test_invalid_options_are_rejected(spec, error, message):
    with pytest.raises(error) as raised:
        build("optimizer", spec)
    assert message in str(raised.value)


@pytest.mark.parametrize("name", parts("optimizer"))
def test_every_option_is_documented(name):
    cls = parts("optimizer")[name]
    assert all(f"\n    {option}: " in cls.__doc__ for option in options(cls))

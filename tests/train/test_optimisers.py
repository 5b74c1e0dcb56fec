"""Optimisers against their published equations in numpy, and what they take care of in a model."""

import numpy as np
import pytest
import torch
from torch import nn

from seqloom import build_model
from seqloom.errors import OptionError, UnknownNameError
from seqloom.registry import build, options, parts

STEPS = 5


def adam(w, gradients, rate, betas, epsilon, decay, decoupled):
    """Kingma and Ba 2015, algorithm 1; decoupled: Loshchilov and Hutter 2019, algorithm 2, line 12."""
    (b1, b2), m, v = betas, 0.0, 0.0
    for t, g in enumerate(gradients, start=1):
        g = g if decoupled else g + decay * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        shrunk = rate * decay * w if decoupled else 0.0
        w = w - shrunk - rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon)
    return w


def sgd(w, gradients, rate, momentum, nesterov, decay):
    m = 0.0
    for g in gradients:
        g = g + decay * w
        m = momentum * m + g
        w = w - rate * (g + momentum * m if nesterov else m)
    return w


def adadelta(w, gradients, rate, rho, epsilon, decay):
    """Zeiler 2012, algorithm 1."""
    v, u = 0.0, 0.0
    for g in gradients:
        g = g + decay * w
        v = rho * v + (1 - rho) * g**2
        d = np.sqrt(u + epsilon) / np.sqrt(v + epsilon) * g
        u = rho * u + (1 - rho) * d**2
        w = w - rate * d
    return w


CASES = [
    ({"name": "adam"}, lambda w, g, d: adam(w, g, 1e-3, (0.9, 0.999), 1e-8, 0.0, False)),
    (
        {"name": "adam", "rate": 0.1, "betas": [0.8, 0.98], "epsilon": 1e-3, "weight_decay": 0.2},
        lambda w, g, d: adam(w, g, 0.1, (0.8, 0.98), 1e-3, 0.2 * d, False),
    ),
    ({"name": "adamw"}, lambda w, g, d: adam(w, g, 1e-3, (0.9, 0.999), 1e-8, 0.01 * d, True)),
    (
        {"name": "adamw", "rate": 0.1, "betas": [0.8, 0.98], "epsilon": 1e-3, "weight_decay": 0.2},
        lambda w, g, d: adam(w, g, 0.1, (0.8, 0.98), 1e-3, 0.2 * d, True),
    ),
    ({"name": "sgd"}, lambda w, g, d: sgd(w, g, 0.1, 0.9, False, 0.0)),
    ({"name": "sgd", "rate": 0.3, "momentum": 0.0}, lambda w, g, d: sgd(w, g, 0.3, 0.0, False, 0.0)),
    (
        {"name": "sgd", "momentum": 0.5, "nesterov": True, "weight_decay": 0.2},
        lambda w, g, d: sgd(w, g, 0.1, 0.5, True, 0.2 * d),
    ),
    ({"name": "adadelta"}, lambda w, g, d: adadelta(w, g, 1.0, 0.95, 1e-6, 0.0)),
    (
        {"name": "adadelta", "rate": 0.5, "rho": 0.8, "epsilon": 1e-3, "weight_decay": 0.2},
        lambda w, g, d: adadelta(w, g, 0.5, 0.8, 1e-3, 0.2 * d),
    ),
]


@pytest.mark.parametrize(("spec", "equations"), CASES, ids=lambda c: str(c) if isinstance(c, dict) else "")
def test_steps_are_those_of_the_paper(spec, equations):
    """A matrix, which is decayed, and a bias, which is not."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    before = [p.detach().numpy().copy() for p in model.parameters()]
    optimiser = build("optimiser", spec).build(model)
    gradients = [[torch.randn_like(p) for p in model.parameters()] for _ in range(STEPS)]
    for given in gradients:
        for parameter, gradient in zip(model.parameters(), given, strict=True):
            parameter.grad = gradient.clone()
        optimiser.step()
    for n, (parameter, decays) in enumerate(zip(model.parameters(), (1.0, 0.0), strict=True)):
        expected = equations(before[n], [given[n].numpy() for given in gradients], decays)
        np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_every_optimiser_is_tested():
    assert {spec["name"] for spec, _ in CASES} == set(parts("optimiser"))


@pytest.mark.parametrize("name", parts("optimiser"))
def test_every_parameter_is_there_once(name):
    model = build_model("transformer", sizes={"source": 9, "target": 9}, size=8, settings={"share_embeddings": True})
    groups = build("optimiser", {"name": name, "weight_decay": 0.3}).build(model).param_groups
    there = [id(p) for group in groups for p in group["params"]]
    assert len(there) == len(set(there))
    assert set(there) == {id(p) for p in model.parameters()}
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for path, parameter in model.named_parameters():
        plain = path.endswith("bias") or "norm" in path
        assert decay[id(parameter)] == (0.0 if plain else 0.3), path


def test_what_is_frozen_stays_out():
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    model[0].requires_grad_(False)
    (group,) = build("optimiser", "adam").build(model).param_groups
    assert {id(p) for p in group["params"]} == {id(p) for p in model[1].parameters()}


@pytest.mark.parametrize("name", parts("optimiser"))
def test_the_rate_is_a_factor_that_can_be_changed_on_the_way(name):
    """A schedule sets it in the groups before each step."""
    part = build("optimiser", {"name": name, "rate": 0.25})
    model = nn.Linear(2, 2)
    optimiser = part.build(model)
    assert {group["lr"] for group in optimiser.param_groups} == {part.rate} == {0.25}
    before = model.weight.detach().clone()
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"name": "sgd", "nesterov": True, "momentum": 0.0}, OptionError, "set momentum above 0"),
        ({"name": "adam", "rate": 0.0}, OptionError, "rate=0.0"),
        ({"name": "adam", "betas": [0.9, 1.0]}, OptionError, "betas"),
        ({"name": "adamw", "weight_decay": -0.1}, OptionError, "weight_decay"),
        ({"name": "adam", "lr": 0.1, "rat": 1}, UnknownNameError, "optimiser 'adam'"),
        ({"name": "adam", "weight_dekay": 0.1}, UnknownNameError, "did you mean 'weight_decay'?"),
        ("adan", UnknownNameError, "did you mean 'adam'?"),
    ],
)
def test_what_makes_no_sense_is_refused(spec, error, says):
    with pytest.raises(error) as raised:
        build("optimiser", spec)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", parts("optimiser"))
def test_every_option_is_explained(name):
    cls = parts("optimiser")[name]
    assert all(f"\n    {option}: " in cls.__doc__ for option in options(cls))

"""Optimisers: how gradients become new weights.

They are PyTorch's own, in their fused form where there is one. What is decayed is the same for all of them: matrices
and tables, embeddings among them. Biases and the gains of layer norm, which have one dimension, are not: to shrink
them does not make a model simpler.
"""

import inspect
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn, optim

from seqloom.errors import OptionError
from seqloom.registry import register

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Memory = Annotated[float, Field(ge=0, lt=1)]
"""How much of a running mean stays at a step."""


def plain(kind: type[optim.Optimizer], groups: list[dict[str, Any]], **options: Any) -> optim.Optimizer:
    """An optimiser of PyTorch's without the decorators that keep PyTorch's compiler away from it.

    They import that compiler to do so, and that takes longer than to import all of seqloom. Nothing here gives it an
    optimiser to compile.
    """
    decorated = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in decorated}
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    made: optim.Optimizer = type(kind.__name__, (kind,), methods)(groups, **options)
    return made


class Optimiser:
    """How gradients become new weights: makes the optimiser of a model.

    rate: the learning rate, which a schedule's factor multiplies.
    weight_decay: of everything but biases and gains of norms.
    """

    def __init__(self, *, rate: float, weight_decay: float) -> None:
        self.rate = rate
        self.weight_decay = weight_decay

    def build(self, model: nn.Module) -> optim.Optimizer:
        """The optimiser of a model's parameters."""
        raise NotImplementedError

    def groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """The parameters that learn, those that decay apart from the others; a shared one is there once."""
        learning = [p for p in model.parameters() if p.requires_grad]
        decayed = {"params": [p for p in learning if p.dim() > 1], "weight_decay": self.weight_decay}
        plain = {"params": [p for p in learning if p.dim() <= 1], "weight_decay": 0.0}
        return [group for group in (decayed, plain) if group["params"]]


@register("optimiser", "adam")
class Adam(Optimiser):
    """Adam: a step for every weight of its own, by running means of its gradient and of the gradient's square.

        m = β₁ m + (1 − β₁) g        v = β₂ v + (1 − β₂) g²
        w = w − rate · m̂ / (√v̂ + ε)        m̂ = m / (1 − β₁ᵗ)        v̂ = v / (1 − β₂ᵗ)

    Kingma and Ba 2015.

    rate: the learning rate at the schedule's peak.
    betas: β₁ and β₂; Vaswani et al. 2017 take 0.9 and 0.98.
    epsilon: ε.
    weight_decay: λ, added to the gradient as λ w, so that it too goes through m and v; ``adamw`` keeps it apart.
    """

    def __init__(
        self,
        *,
        rate: Positive = 1e-3,
        betas: tuple[Memory, Memory] = (0.9, 0.999),
        epsilon: Positive = 1e-8,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(rate=rate, weight_decay=weight_decay)
        self.betas = betas
        self.epsilon = epsilon

    def build(self, model: nn.Module) -> optim.Optimizer:
        return plain(optim.Adam, self.groups(model), lr=self.rate, betas=self.betas, eps=self.epsilon, fused=True)


@register("optimiser", "adamw")
class AdamW(Adam):
    """Adam with weight decay apart from the gradient: w = w − rate · λ w, then Adam's step.

    Loshchilov and Hutter 2019.

    rate: the learning rate at the schedule's peak.
    betas: β₁ and β₂ of Adam.
    epsilon: ε of Adam.
    weight_decay: λ.
    """

    def __init__(
        self,
        *,
        rate: Positive = 1e-3,
        betas: tuple[Memory, Memory] = (0.9, 0.999),
        epsilon: Positive = 1e-8,
        weight_decay: NotNegative = 0.01,
    ) -> None:
        super().__init__(rate=rate, betas=betas, epsilon=epsilon, weight_decay=weight_decay)

    def build(self, model: nn.Module) -> optim.Optimizer:
        return plain(optim.AdamW, self.groups(model), lr=self.rate, betas=self.betas, eps=self.epsilon, fused=True)


@register("optimiser", "sgd")
class SGD(Optimiser):
    """Stochastic gradient descent: a step against the gradient, or with momentum against a sum of the last ones.

        m = μ m + g        w = w − rate · m        with Nesterov's: w = w − rate · (g + μ m)

    rate: the learning rate at the schedule's peak.
    momentum: μ; 0 is plain descent.
    nesterov: Nesterov's momentum, in the form of Sutskever et al. 2013.
    weight_decay: λ, added to the gradient as λ w.
    """

    def __init__(
        self,
        *,
        rate: Positive = 0.1,
        momentum: Memory = 0.9,
        nesterov: bool = False,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        if nesterov and momentum == 0:
            raise OptionError("optimiser 'sgd': nesterov=True is a kind of momentum: set momentum above 0")
        super().__init__(rate=rate, weight_decay=weight_decay)
        self.momentum = momentum
        self.nesterov = nesterov

    def build(self, model: nn.Module) -> optim.Optimizer:
        groups = self.groups(model)
        return plain(optim.SGD, groups, lr=self.rate, momentum=self.momentum, nesterov=self.nesterov, fused=True)


@register("optimiser", "adadelta")
class Adadelta(Optimiser):
    """Adadelta: steps as large as the last ones were, in relation to the gradients; it needs no rate.

        v = ρ v + (1 − ρ) g²        d = √(u + ε) / √(v + ε) · g        u = ρ u + (1 − ρ) d²        w = w − rate · d

    Zeiler 2012, where the rate is 1; Bahdanau et al. 2015 use it with these values.

    rate: what its steps are multiplied with.
    rho: ρ.
    epsilon: ε.
    weight_decay: λ, added to the gradient as λ w.
    """

    def __init__(
        self,
        *,
        rate: Positive = 1.0,
        rho: Memory = 0.95,
        epsilon: Positive = 1e-6,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(rate=rate, weight_decay=weight_decay)
        self.rho = rho
        self.epsilon = epsilon

    def build(self, model: nn.Module) -> optim.Optimizer:
        return plain(optim.Adadelta, self.groups(model), lr=self.rate, rho=self.rho, eps=self.epsilon, foreach=True)

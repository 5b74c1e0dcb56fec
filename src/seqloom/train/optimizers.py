"""Optimizers of PyTorch, in their fused version where there is one.

All of them apply weight decay to matrices, including embeddings, but not to one-dimensional parameters (biases and
layer norm gains), since shrinking those does not make a model simpler.
"""

import inspect
from typing import Annotated, Any

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import nn, optim

from seqloom.errors import ConfigError
from seqloom.registry import register

Momentum = Annotated[float, Field(ge=0, lt=1)]
"""Decay of a running mean or sum: the fraction of the old value that is kept at each update."""


def undecorated(kind: type[optim.Optimizer], groups: list[dict[str, Any]], **options: Any) -> optim.Optimizer:
    """An optimizer of PyTorch without the decorators that disable torch.compile for it.

    Those decorators import the compiler, which takes longer than importing all of seqloom. Optimizers are never
    compiled here.
    """
    decorated = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in decorated}
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    optimizer: optim.Optimizer = type(kind.__name__, (kind,), methods)(groups, **options)
    return optimizer


class Optimizer:
    """Base class of optimizers; ``build`` creates the optimizer of a model.

    lr: peak learning rate; the schedule multiplies it by a factor.
    weight_decay: weight decay of all parameters except biases and layer norm gains.
    """

    def __init__(self, *, lr: float, weight_decay: float) -> None:
        self.lr = lr
        self.weight_decay = weight_decay

    def build(self, model: nn.Module) -> optim.Optimizer:
        """Create the PyTorch optimizer for the parameters of a model."""
        raise NotImplementedError

    def groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """Parameter groups with and without weight decay; a shared parameter appears once."""
        trainable = [p for p in model.parameters() if p.requires_grad]
        decayed = {"params": [p for p in trainable if p.dim() > 1], "weight_decay": self.weight_decay}
        not_decayed = {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0}
        return [group for group in (decayed, not_decayed) if group["params"]]


@register("optimizer", "adam")
class Adam(Optimizer):
    """Adam: adaptive step sizes from running means of the gradient and of its square.

        m = β₁ m + (1 − β₁) g        v = β₂ v + (1 − β₂) g²
        w = w − lr · m̂ / (√v̂ + ε)        m̂ = m / (1 − β₁ᵗ)        v̂ = v / (1 − β₂ᵗ)

    Kingma and Ba 2015.

    lr: peak learning rate, which the schedule multiplies by a factor.
    betas: β₁ and β₂, the decay of the running means; Vaswani et al. 2017 use 0.9 and 0.98.
    eps: ε, added to the denominator for numerical stability.
    weight_decay: L2 penalty λ: λ w is added to the gradient, so it also enters m and v; ``adamw`` decouples it.
    """

    def __init__(
        self,
        *,
        lr: PositiveFloat = 1e-3,
        betas: tuple[Momentum, Momentum] = (0.9, 0.999),
        eps: PositiveFloat = 1e-8,
        weight_decay: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay)
        self.betas = betas
        self.eps = eps

    def build(self, model: nn.Module) -> optim.Optimizer:
        return undecorated(optim.Adam, self.groups(model), lr=self.lr, betas=self.betas, eps=self.eps, fused=True)


@register("optimizer", "adamw")
class AdamW(Adam):
    """AdamW: Adam with decoupled weight decay, w = w − lr · λ w before each step of Adam.

    Loshchilov and Hutter 2019.

    lr: peak learning rate, which the schedule multiplies by a factor.
    betas: β₁ and β₂ of Adam, the decay of the running means.
    eps: ε of Adam, added to the denominator for numerical stability.
    weight_decay: decoupled weight decay λ.
    """

    def __init__(
        self,
        *,
        lr: PositiveFloat = 1e-3,
        betas: tuple[Momentum, Momentum] = (0.9, 0.999),
        eps: PositiveFloat = 1e-8,
        weight_decay: NonNegativeFloat = 0.01,
    ) -> None:
        super().__init__(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def build(self, model: nn.Module) -> optim.Optimizer:
        return undecorated(optim.AdamW, self.groups(model), lr=self.lr, betas=self.betas, eps=self.eps, fused=True)


@register("optimizer", "sgd")
class SGD(Optimizer):
    """Stochastic gradient descent (SGD), with momentum.

        m = μ m + g        w = w − lr · m        with Nesterov momentum: w = w − lr · (g + μ m)

    lr: peak learning rate, which the schedule multiplies by a factor.
    momentum: momentum μ; 0 is SGD without momentum.
    nesterov: true for Nesterov momentum, in the form of Sutskever et al. 2013.
    weight_decay: L2 penalty λ: λ w is added to the gradient.
    """

    def __init__(
        self,
        *,
        lr: PositiveFloat = 0.1,
        momentum: Momentum = 0.9,
        nesterov: bool = False,
        weight_decay: NonNegativeFloat = 0.0,
    ) -> None:
        if nesterov and momentum == 0:
            raise ConfigError("optimizer 'sgd': nesterov=True requires momentum: set momentum above 0")
        super().__init__(lr=lr, weight_decay=weight_decay)
        self.momentum = momentum
        self.nesterov = nesterov

    def build(self, model: nn.Module) -> optim.Optimizer:
        groups = self.groups(model)
        return undecorated(optim.SGD, groups, lr=self.lr, momentum=self.momentum, nesterov=self.nesterov, fused=True)


@register("optimizer", "adadelta")
class Adadelta(Optimizer):
    """Adadelta: step sizes from running means of squared gradients and squared updates, without a learning rate.

        v = ρ v + (1 − ρ) g²        d = √(u + ε) / √(v + ε) · g        u = ρ u + (1 − ρ) d²        w = w − lr · d

    Zeiler 2012, with a learning rate of 1; Bahdanau et al. 2015 use it with the default values.

    lr: factor of the step size, which the schedule multiplies by another factor.
    rho: decay ρ of the running means.
    eps: ε, added to both means for numerical stability.
    weight_decay: L2 penalty λ: λ w is added to the gradient.
    """

    def __init__(
        self,
        *,
        lr: PositiveFloat = 1.0,
        rho: Momentum = 0.95,
        eps: PositiveFloat = 1e-6,
        weight_decay: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay)
        self.rho = rho
        self.eps = eps

    def build(self, model: nn.Module) -> optim.Optimizer:
        return undecorated(optim.Adadelta, self.groups(model), lr=self.lr, rho=self.rho, eps=self.eps, foreach=True)

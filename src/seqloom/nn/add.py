"""``add(W, x, onto)``: onto + W x, the operation every recurrence is built from; and a faster version for loops.

If the input of a step depends on the previous step (as with input feeding), the loop over steps can't be avoided, but
most of its overhead can. W is the same at every step, so the gradient of a_t = z_t + W x_t,

    ∂L/∂W = Σ_t ∂L/∂a_t x_tᵀ,

is one large matrix multiplication instead of T small ones and their sum. Inside a ``Loop``, W is therefore a constant
for autograd, and every step adds a zero tensor that collects ∂L/∂a_t.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Add(Protocol):
    """onto + W x for every row of x; W x without ``onto``. W is Z × X, or B × Z × X with one matrix per sentence."""

    def __call__(self, W: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor: ...


def add(W: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor:
    """onto + W x, as one fused operation where PyTorch has one."""
    if onto is None:
        return x @ W.mT
    if x.dim() == 2:
        return torch.addmm(onto, x, W.t())
    return F.linear(x, W, onto) if onto.dim() == 1 else onto + F.linear(x, W)


class Loop:
    """``add`` for a loop over steps that all use the same W: the gradient of W is computed once.

    Under autocast, W is also cast once; autocast alone would cast it at every step, unless W is a parameter.

    steps: expected number of uses of each W; more uses are allowed.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._constants: dict[tuple[Any, ...], _Constant] = {}

    def add(self, W: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """onto + W x; x has one row per sentence or, if W has one matrix per sentence, several."""
        if not (torch.is_grad_enabled() and W.requires_grad) or torch.compiler.is_compiling():
            return add(W, x, onto)
        key = (id(W if W._base is None else W._base), W.storage_offset(), W.shape, W.stride())
        constant = self._constants.get(key)
        zero = None if constant is None else next(constant.zeros, None)
        if constant is None or zero is None:
            constant = self._constants[key] = _Constant.of(W, x, self._steps)
            zero = next(constant.zeros)
        constant.inputs.append(x.detach())
        if W.dim() == 3:
            return torch.baddbmm(zero if onto is None else onto + zero, x, constant.W.mT)
        return torch.addmm(zero if onto is None else onto + zero, x, constant.W.t())


class _Constant(NamedTuple):
    """What a loop stores for a W: its values, one zero tensor per use to collect gradients, and the inputs so far."""

    original: Tensor
    """W itself. The reference keeps its id from being reused by another tensor."""
    W: Tensor
    zeros: Iterator[Tensor]
    inputs: list[Tensor]

    @classmethod
    def of(cls, W: Tensor, x: Tensor, uses: int) -> "_Constant":
        constant, inputs = W.detach().to(autocast_dtype(W.device) or W.dtype), list[Tensor]()
        apply: Any = _Zeros.apply
        zeros = apply(W, constant.new_zeros(()).expand(*x.shape[:-1], W.shape[-2]), uses, inputs)
        return cls(W, constant, iter(zeros), inputs)


class _Zeros(torch.autograd.Function):
    """Zeros, one per use of W in a loop. Backward computes the gradient of W from their gradients and the inputs."""

    @staticmethod
    def forward(ctx: Any, W: Tensor, zero: Tensor, uses: int, inputs: list[Tensor]) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.inputs = inputs
        return tuple(zero.view_as(zero) for _ in range(uses))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        used = [(grad, x.to(grad.dtype)) for grad, x in zip(grads, ctx.inputs, strict=False) if grad is not None]
        if not used:
            return None, None, None, None
        grad, x = (torch.cat(tensors, -2) for tensors in zip(*used, strict=True))
        return grad.mT @ x, None, None, None


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of matrix multiplications under autocast on a device; None if autocast is off."""
    name = device.type
    enabled = torch.amp.is_autocast_available(name) and torch.is_autocast_enabled(name)
    return torch.get_autocast_dtype(name) if enabled else None

"""``add(W, x, onto)``: onto + W x, the one operation that every recurrence is made of; plain, and in a loop.

Where a step's input depends on the step before (an attended vector fed back), the loop over steps can't be avoided,
but much of its cost can. W is the same at every step, so of a_t = z_t + W x_t the gradient

    ∂L/∂W = Σ_t ∂L/∂a_t x_tᵀ

is one large matrix multiplication, not T small ones and as many sums. So inside a ``Loop`` W is a constant, and every
step adds a zero that collects ∂L/∂a_t for it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Add(Protocol):
    """onto + W x for every row of x; W is Z × X, or B × Z × X, one matrix per sentence. Without ``onto``: W x."""

    def __call__(self, W: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor: ...


def add(W: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor:
    """onto + W x, as one operation where there is one."""
    if onto is None:
        return x @ W.mT
    if x.dim() == 2:
        return torch.addmm(onto, x, W.t())
    return F.linear(x, W, onto) if onto.dim() == 1 else onto + F.linear(x, W)


class Loop:
    """``add`` for a loop over steps, which use the same W again and again: its gradient is computed once.

    Under autocast W is converted once, too; autocast itself would convert anything but a parameter at every step.

    steps: how often a W is likely to be used; more often is fine.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._constants: dict[tuple[Any, ...], _Constant] = {}

    def add(self, W: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """onto + W x; x has a row per sentence, or, with one W per sentence, rows for each."""
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
    """What a loop keeps of a W: its values, zeros that collect gradients, one per use, and the inputs so far."""

    original: Tensor
    """Held, so that no other tensor is taken for it."""
    W: Tensor
    zeros: Iterator[Tensor]
    inputs: list[Tensor]

    @classmethod
    def of(cls, W: Tensor, x: Tensor, uses: int) -> "_Constant":
        constant, inputs = W.detach().to(autocast_type(W.device) or W.dtype), list[Tensor]()
        apply: Any = _Zeros.apply
        zeros = apply(W, constant.new_zeros(()).expand(*x.shape[:-1], W.shape[-2]), uses, inputs)
        return cls(W, constant, iter(zeros), inputs)


class _Zeros(torch.autograd.Function):
    """Zeros for a loop's uses of W; backward, from their gradients and the inputs, the gradient of W."""

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


def autocast_type(device: torch.device) -> torch.dtype | None:
    """What autocast computes matrix multiplications in on a device; None: it is off."""
    kind = device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if on else None

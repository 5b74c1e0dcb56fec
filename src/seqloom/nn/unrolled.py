"""What a loop over steps multiplies again and again: its gradient as one product for all steps.

Where a step's input depends on the step before (an attended vector fed back), the loop can't be avoided, but much of
its cost can. If W is the same at every step and z_t is known beforehand, then of

    a_t = z_t + W x_t        ∂L/∂z_t = ∂L/∂a_t        ∂L/∂W = Σ_t ∂L/∂a_t x_tᵀ = (∂L/∂Z)ᵀ X

the gradient of W is one large product of what arrives at Z with all the x_t, not T small ones and as many sums. So
inside the loop W is a constant, and its gradient is attached to Z.

Under autocast the products inside the loop are of its type, as elsewhere. Autocast itself would convert W anew at
every step, as it only remembers parameters; so here it is converted once.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.nn.cells import Cell
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent


class UnrolledLinear:
    """a_t = z_t + Σ_i W_i x_ti for the steps of a loop.

    z_BTZ: what is known for all steps.
    weights: the W_i, each with the columns of z that it contributes to.
    """

    def __init__(self, z_BTZ: Tensor, weights: Sequence[tuple[Tensor, slice]]) -> None:
        self.weights = [_constant(weight) for weight, _ in weights]
        self.inputs: list[dict[int, Tensor]] = [{} for _ in weights]
        for (weight, columns), inputs in zip(weights, self.inputs, strict=True):
            z_BTZ = _attached(z_BTZ, weight, inputs, partial(_weight_gradient, columns))
        self.z_T = z_BTZ.unbind(1)
        self.t = 0

    def begin(self, t: int) -> Tensor:
        """z_t, at the beginning of step t; the steps may come in any order."""
        self.t = t
        return self.z_T[t]

    def add(self, i: int, x_BX: Tensor, onto_BZ: Tensor) -> Tensor:
        """onto + W_i x; in every step once for every i."""
        if torch.is_grad_enabled():
            self.inputs[i][self.t] = x_BX.detach()
        return torch.addmm(onto_BZ, x_BX, self.weights[i].t())


class UnrolledCell:
    """The steps of a cell in a loop.

    z_BTZ: what is known of the cell's input before the loop.
    blocks: numbers of the cell's inputs that arrive step by step.
    """

    def __init__(self, cell: Cell, z_BTZ: Tensor, blocks: Sequence[int] = ()) -> None:
        self.cell = cell
        self.place = {product: len(blocks) + i for i, product in enumerate(cell.products)}
        inputs = [(cell.block_weight(block), slice(None)) for block in blocks]
        past = [(cell.recurrent_weight(product), cell.columns(product)) for product in cell.products]
        self.linear = UnrolledLinear(z_BTZ, [*inputs, *past])

    def step(
        self, t: int, inputs: Sequence[Tensor], state: CellState, probe: Probe = silent
    ) -> tuple[Tensor, CellState]:
        """Step ``t``, given the inputs that arrive step by step and the last state."""
        z_BZ = self.linear.begin(t)
        for i, x_BX in enumerate(inputs):
            z_BZ = self.linear.add(i, x_BX, z_BZ)
        more = (self._recur,) if self.place else ()
        step: tuple[Tensor, CellState] = self.cell(z_BZ, state, probe, *more)
        return step

    def _recur(self, product: str, x_BH: Tensor, onto_BZ: Tensor) -> Tensor:
        return self.linear.add(self.place[product], x_BH, onto_BZ)


class UnrolledContext:
    """context_t = Σ_s w_ts · value_s for the steps of a loop; what is attached here is the values' gradient."""

    def __init__(self, values_BSH: Tensor, steps: int) -> None:
        self.values_BSH = _constant(values_BSH)
        self.weights: dict[int, Tensor] = {}
        B, _, H = values_BSH.shape
        zeros_BTH = values_BSH.new_zeros(1, 1, 1).expand(B, steps, H)
        self.zeros_T = _attached(zeros_BTH, values_BSH, self.weights, _values_gradient).chunk(steps, 1)

    def step(self, t: int, weights_B1S: Tensor) -> Tensor:
        """The context of step ``t``, B 1 H."""
        if torch.is_grad_enabled():
            self.weights[t] = weights_B1S.detach()
        return torch.baddbmm(self.zeros_T[t], weights_B1S, self.values_BSH)


def autocast_type(device: torch.device) -> torch.dtype | None:
    """What autocast computes products in on a device; None: it is off."""
    kind = device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if on else None


def _constant(tensor: Tensor) -> Tensor:
    """A tensor as what a loop multiplies with: without a gradient, and of autocast's type where that is on."""
    return tensor.detach().to(autocast_type(tensor.device) or tensor.dtype)


def _weight_gradient(columns: slice, grad_BTZ: Tensor, inputs: dict[int, Tensor]) -> Tensor:
    x_BTX = torch.stack([inputs[t].to(grad_BTZ.dtype) for t in range(len(inputs))], 1)
    return grad_BTZ[..., columns].flatten(0, 1).t() @ x_BTX.flatten(0, 1)


def _values_gradient(grad_BTH: Tensor, weights: dict[int, Tensor]) -> Tensor:
    return torch.cat([weights[t].to(grad_BTH.dtype) for t in range(len(weights))], 1).mT @ grad_BTH


class _Attach(torch.autograd.Function):
    """z as it is; backward, also the gradient of a constant of the loop, from z's and what it was multiplied with."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, constant: Tensor, factors: dict[int, Tensor], gradient: Any) -> Tensor:
        ctx.factors, ctx.gradient = factors, gradient
        return z.view_as(z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        return grad, ctx.gradient(grad, ctx.factors) if ctx.needs_input_grad[1] else None, None, None


def _attached(z: Tensor, constant: Tensor, factors: dict[int, Tensor], gradient: Any) -> Tensor:
    apply: Any = _Attach.apply
    attached: Tensor = apply(z, constant, factors, gradient)
    return attached

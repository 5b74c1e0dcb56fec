"""What a loop over steps multiplies again and again: its gradient as one product for all steps.

Where a step's input depends on the step before (an attended vector fed back), the loop can't be avoided, but much of
its cost can. If W is the same at every step and z_t is known beforehand, then of

    a_t = z_t + W x_t        ∂L/∂z_t = ∂L/∂a_t        ∂L/∂W = Σ_t ∂L/∂a_t x_tᵀ = (∂L/∂Z)ᵀ X

the gradient of W is one large product of what arrives at Z with all the x_t, not T small ones and as many sums. So
inside the loop W is a constant, and its gradient is attached to Z.
"""

from collections.abc import Sequence
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
    weights: the W_i.
    """

    def __init__(self, z_BTZ: Tensor, weights: Sequence[Tensor]) -> None:
        self.weights = [weight.detach() for weight in weights]
        self.inputs: list[list[Tensor]] = [[] for _ in weights]
        for weight, inputs in zip(weights, self.inputs, strict=True):
            z_BTZ = _attached(z_BTZ, weight, inputs, _weight_gradient)
        self.z_T = z_BTZ.unbind(1)

    def step(self, t: int, inputs: Sequence[Tensor]) -> Tensor:
        """a_t, given the x_ti."""
        a_BZ = self.z_T[t]
        for x_BX, weight, seen in zip(inputs, self.weights, self.inputs, strict=True):
            seen.append(x_BX.detach())
            a_BZ = torch.addmm(a_BZ, x_BX, weight.t())
        return a_BZ


class UnrolledCell:
    """The steps of a cell in a loop.

    z_BTZ: what is known of the cell's input before the loop.
    blocks: numbers of the cell's inputs that arrive step by step.
    """

    def __init__(self, cell: Cell, z_BTZ: Tensor, blocks: Sequence[int]) -> None:
        self.cell = cell
        past = [cell.recurrent] if cell.adds_past else []
        self.linear = UnrolledLinear(z_BTZ, [*(cell.block_weight(block) for block in blocks), *past])

    def step(
        self, t: int, inputs: Sequence[Tensor], state: CellState, probe: Probe = silent
    ) -> tuple[Tensor, CellState]:
        """Step ``t``, given the inputs that arrive step by step and the last state."""
        if self.cell.adds_past:
            return self.cell.react(self.linear.step(t, (*inputs, state[0])), state, probe)
        step: tuple[Tensor, CellState] = self.cell(self.linear.step(t, inputs), state, probe)
        return step


class UnrolledContext:
    """context_t = Σ_s w_ts · value_s for the steps of a loop; what is attached here is the values' gradient."""

    def __init__(self, values_BSH: Tensor, steps: int) -> None:
        self.values_BSH = values_BSH.detach()
        self.weights: list[Tensor] = []
        B, _, H = values_BSH.shape
        zeros_BTH = values_BSH.new_zeros(1, 1, 1).expand(B, steps, H)
        self.zeros_T = _attached(zeros_BTH, values_BSH, self.weights, _values_gradient).chunk(steps, 1)

    def step(self, t: int, weights_B1S: Tensor) -> Tensor:
        """The context of step ``t``, B 1 H."""
        self.weights.append(weights_B1S.detach())
        return torch.baddbmm(self.zeros_T[t], weights_B1S, self.values_BSH)


def _weight_gradient(grad_BTZ: Tensor, inputs: list[Tensor]) -> Tensor:
    return grad_BTZ.flatten(0, 1).t() @ torch.stack(inputs, 1).flatten(0, 1)


def _values_gradient(grad_BTH: Tensor, weights: list[Tensor]) -> Tensor:
    return torch.cat(weights, 1).mT @ grad_BTH


class _Attach(torch.autograd.Function):
    """z as it is; backward, also the gradient of a constant of the loop, from z's and what it was multiplied with."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, constant: Tensor, factors: list[Tensor], gradient: Any) -> Tensor:
        ctx.factors, ctx.gradient = factors, gradient
        return z.view_as(z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        return grad, ctx.gradient(grad, ctx.factors) if ctx.needs_input_grad[1] else None, None, None


def _attached(z: Tensor, constant: Tensor, factors: list[Tensor], gradient: Any) -> Tensor:
    apply: Any = _Attach.apply
    attached: Tensor = apply(z, constant, factors, gradient)
    return attached

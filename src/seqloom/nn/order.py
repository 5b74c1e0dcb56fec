"""The order in which a recurrence takes its steps, as one gather per direction.

PyTorch's fused recurrences know neither masks nor a direction per row (packed sequences do, on a slow path in
training). So the real steps of every row are moved to the front, for the backward direction last one first, the
padding stays behind them, and the results are put back where they came from.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Order:
    """A permutation of the steps of every row: ``index`` and its ``inverse`` into B·S flat steps."""

    index: Tensor
    inverse: Tensor
    real_BS: Tensor

    @classmethod
    def of(cls, mask_BS: Tensor, backward: bool = False) -> "Order":
        """The real steps first, in their order or, ``backward``, the last one first."""
        B, S = mask_BS.shape
        steps_S = torch.arange(S, device=mask_BS.device)
        rank_BS = torch.where(mask_BS, S - 1 - steps_S if backward else steps_S, S + steps_S)
        index_BS = rank_BS.argsort(1)
        row_B1 = torch.arange(0, B * S, S, device=mask_BS.device)[:, None]
        real_BS = steps_S < mask_BS.sum(1, keepdim=True)
        return cls((index_BS + row_B1).flatten(), (index_BS.argsort(1) + row_B1).flatten(), real_BS)

    def apply(self, x_BSX: Tensor) -> Tensor:
        """The steps in this order."""
        return _reorder(x_BSX, self.index, self.inverse)

    def undo(self, x_BSX: Tensor) -> Tensor:
        """Steps in this order, put back where they came from."""
        return _reorder(x_BSX, self.inverse, self.index)


class _Reorder(torch.autograd.Function):
    """x[index] of a permutation, whose backward pass is grad[inverse]: a gather too, and no scatter into zeros."""

    @staticmethod
    def forward(ctx: Any, x_BSX: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(index, inverse)
        return x_BSX.flatten(0, 1).index_select(0, index).view_as(x_BSX)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        index, inverse = ctx.saved_tensors
        return _reorder(grads[0], inverse, index), None, None


def _reorder(x_BSX: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    result: Tensor = _Reorder.apply(x_BSX.contiguous(), index, inverse)  # type: ignore[no-untyped-call]
    return result


def reverse(x_BSX: Tensor, mask_BS: Tensor) -> Tensor:
    """Every row's real steps reversed among themselves; padding stays where it is."""
    places = Order.of(mask_BS)
    return places.undo(Order.of(mask_BS, backward=True).apply(x_BSX))

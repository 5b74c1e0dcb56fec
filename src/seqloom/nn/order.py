"""The order in which an RNN reads its steps, as one gather per direction.

PyTorch's fused RNN kernels support neither masks nor reversal per row (packed sequences do, but are slow in
training). So the non-padding steps of every row are moved to the front, reversed for the backward direction, with the
padding after them; afterwards, the outputs are moved back to their original positions.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Order:
    """A permutation of the steps of every row.

    index, inverse: the permutation and its inverse, as indices into the B·S flattened steps.
    mask_BS: the padding mask after the permutation.
    """

    index: Tensor
    inverse: Tensor
    mask_BS: Tensor

    @classmethod
    def of(cls, mask_BS: Tensor, backward: bool = False) -> "Order":
        """Non-padding steps first, in their original order or, if ``backward``, reversed."""
        B, S = mask_BS.shape
        steps_S = torch.arange(S, device=mask_BS.device)
        rank_BS = torch.where(mask_BS, S - 1 - steps_S if backward else steps_S, S + steps_S)
        index_BS = rank_BS.argsort(1)
        row_B1 = torch.arange(0, B * S, S, device=mask_BS.device)[:, None]
        packed_BS = steps_S < mask_BS.sum(1, keepdim=True)
        return cls((index_BS + row_B1).flatten(), (index_BS.argsort(1) + row_B1).flatten(), packed_BS)

    def apply(self, x_BSX: Tensor) -> Tensor:
        """The steps, put in this order."""
        return _reorder(x_BSX, self.index, self.inverse)

    def undo(self, x_BSX: Tensor) -> Tensor:
        """Steps in this order, moved back to their original positions."""
        return _reorder(x_BSX, self.inverse, self.index)


class _Reorder(torch.autograd.Function):
    """x[index] for a permutation; its backward pass is grad[inverse], a gather instead of a scatter into zeros."""

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
    """The non-padding steps of every row reversed; padding stays where it is."""
    return Order.of(mask_BS).undo(Order.of(mask_BS, backward=True).apply(x_BSX))

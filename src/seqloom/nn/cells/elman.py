"""The simple recurrent network."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from seqloom.nn import fused
from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell, last_real
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent
from seqloom.registry import register


@register("cell", "elman")
class Elman(Cell):
    """The simple recurrent network: one layer that also sees its own last output.

        h_t = φ(W x_t + U h_{t−1} + b)

    Elman 1990, "Finding structure in time".

    activation: φ, ``tanh`` or ``sigmoid``.
    """

    def __init__(
        self, inputs: int | Sequence[int], size: int, *, activation: Literal["tanh", "sigmoid"] = "tanh"
    ) -> None:
        super().__init__(inputs, size, blocks=("h",), recurrent=("h",))
        self.activation = activation

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        phi = torch.tanh if self.activation == "tanh" else torch.sigmoid
        h = probe("h", phi(add(self.recurrent, h, z_RZ)))
        return h, (h,)

    @property
    def has_twin(self) -> bool:
        return self.activation == "tanh"

    def run_twin(self, x_BSE: Tensor, state: CellState, real_BS: Tensor | None) -> tuple[Tensor, CellState]:
        weights = [self.input_weight(), self.recurrent, self.bias, torch.zeros_like(self.bias)]
        h_BSH = fused.elman(x_BSE, state[0], weights)
        return h_BSH, (last_real(h_BSH, real_BS, state[0]),)

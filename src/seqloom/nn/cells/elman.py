"""The Elman network."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from seqloom.nn import fused
from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell, final_hidden
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import register


@register("cell", "elman")
class Elman(Cell):
    """Elman network (simple RNN): the hidden state depends on the input and the previous hidden state.

        h_t = φ(W x_t + U h_{t−1} + b)

    Elman 1990, "Finding structure in time".

    Shapes: z_RZ is R × H, the state is h, R × H.

    activation: activation function φ, ``tanh`` or ``sigmoid``; only ``tanh`` has a fused kernel.
    """

    def __init__(
        self, inputs: int | Sequence[int], size: int, *, activation: Literal["tanh", "sigmoid"] = "tanh"
    ) -> None:
        super().__init__(inputs, size, blocks=("h",), recurrent=("h",))
        self.activation = activation

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        phi = torch.tanh if self.activation == "tanh" else torch.sigmoid
        h = probe("h", phi(add(self.recurrent, h, z_RZ)))
        return h, (h,)

    @property
    def has_fused_kernel(self) -> bool:
        return self.activation == "tanh"

    def forward_fused(self, x_BSE: Tensor, state: CellState, mask_BS: Tensor | None) -> tuple[Tensor, CellState]:
        weights = [self.input_weight(), self.recurrent, self.bias, torch.zeros_like(self.bias)]
        h_BSH = fused.elman(x_BSE, state[0], weights)
        return h_BSH, (final_hidden(h_BSH, mask_BS, state[0]),)

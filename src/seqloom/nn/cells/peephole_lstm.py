"""The long short-term memory whose gates look at its cell state."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent
from seqloom.registry import register


@register("cell", "peephole_lstm")
class PeepholeLSTM(Cell):
    """LSTM with peepholes: its gates also see the cell state, however shut the output gate is.

        i_t = σ(W_i x_t + U_i h_{t−1} + p_i ∘ c_{t−1} + b_i)
        f_t = σ(W_f x_t + U_f h_{t−1} + p_f ∘ c_{t−1} + b_f)
        g_t = tanh(W_g x_t + U_g h_{t−1} + b_g)
        c_t = f_t ∘ c_{t−1} + i_t ∘ g_t
        o_t = σ(W_o x_t + U_o h_{t−1} + p_o ∘ c_t + b_o)
        h_t = o_t ∘ tanh(c_t)

    Gers and Schmidhuber 2000, "Recurrent nets that time and count". The peepholes p are vectors: every unit sees its
    own cell only. They start at 0, so the cell starts as the plain LSTM.

    Shapes: z_RZ is R × 4H (input, forget, candidate, output), the state is h and c, each R × H.

    forget_bias: what b_f is set to at first.
    """

    parts: ClassVar[tuple[str, ...]] = ("h", "c")

    def __init__(self, inputs: int | Sequence[int], size: int, *, forget_bias: float = 1.0) -> None:
        blocks = ("input", "forget", "candidate", "output")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        self.peepholes = nn.Parameter(torch.zeros(3, size))
        nn.init.constant_(self.named_blocks(self.bias.data)["forget"], forget_bias)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        h, c = state
        p_i, p_f, p_o = self.peepholes
        a_i, a_f, a_g, a_o = add(self.recurrent, h, z_RZ).chunk(4, -1)
        i = probe("input", torch.sigmoid(a_i + p_i * c))
        f = probe("forget", torch.sigmoid(a_f + p_f * c))
        g = probe("candidate", torch.tanh(a_g))
        c = probe("c", f * c + i * g)
        o = probe("output", torch.sigmoid(a_o + p_o * c))
        h = probe("h", o * torch.tanh(c))
        return h, (h, c)

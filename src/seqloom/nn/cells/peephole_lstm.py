"""Long short-term memory (LSTM) with peephole connections."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import register


@register("cell", "peephole_lstm")
class PeepholeLSTM(Cell):
    """LSTM with peephole connections: the gates also read the cell state, even if the output gate is closed.

        i_t = σ(W_i x_t + U_i h_{t−1} + p_i ∘ c_{t−1} + b_i)
        f_t = σ(W_f x_t + U_f h_{t−1} + p_f ∘ c_{t−1} + b_f)
        g_t = tanh(W_g x_t + U_g h_{t−1} + b_g)
        c_t = f_t ∘ c_{t−1} + i_t ∘ g_t
        o_t = σ(W_o x_t + U_o h_{t−1} + p_o ∘ c_t + b_o)
        h_t = o_t ∘ tanh(c_t)

    Gers and Schmidhuber 2000, "Recurrent nets that time and count". The peephole weights p are vectors: every
    unit reads only its own cell. They are initialized to 0, so the initial cell equals the plain LSTM.

    Shapes: z_RZ is R × 4H (input, forget, candidate, output), the state is h and c, each R × H.

    forget_bias: initial value of the forget gate bias b_f.
    """

    state_names: ClassVar[tuple[str, ...]] = ("h", "c")

    def __init__(self, inputs: int | Sequence[int], size: int, *, forget_bias: float = 1.0) -> None:
        blocks = ("input", "forget", "candidate", "output")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        self.peepholes = nn.Parameter(torch.zeros(3, size))
        nn.init.constant_(self.named_blocks(self.bias.data)["forget"], forget_bias)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
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

"""An LSTM with a peephole connection and coupled input and forget gates (Greff et al. 2017)."""

import torch
from torch import nn

from seqloom import register
from seqloom.nn.add import add
from seqloom.nn.cells import Cell
from seqloom.nn.probe import no_probe


@register("cell", "outside_peephole")
class OutsidePeephole(Cell):
    """f = σ(W_f x + U_f h + p ∘ c + b_f),  c' = f ∘ c + (1 − f) ∘ tanh(…),  h' = σ(…) ∘ tanh(c')."""

    state_names = ("h", "c")

    def __init__(self, inputs, size):
        blocks = ("forget", "candidate", "output")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        self.peephole = nn.Parameter(torch.zeros(size))

    def forward(self, z_RZ, state, probe=no_probe, add=add):
        h, c = state
        a_f, a_g, a_o = add(self.recurrent, h, z_RZ).chunk(3, -1)
        f = probe("forget", torch.sigmoid(a_f + self.peephole * c))
        g = probe("candidate", torch.tanh(a_g))
        c = probe("c", f * c + (1 - f) * g)
        o = probe("output", torch.sigmoid(a_o))
        h = probe("h", o * torch.tanh(c))
        return h, (h, c)

"""A minimal GRU, whose gate and candidate depend on the input only (Feng et al. 2024)."""

import torch

from seqloom import register
from seqloom.nn.cells import Cell
from seqloom.nn.probe import no_probe


@register("cell", "outside_gru")
class OutsideGRU(Cell):
    """z = σ(W_z x + b_z),  h' = (1 − z) ∘ h + z ∘ (W_n x + b_n)."""

    def __init__(self, inputs, size):
        super().__init__(inputs, size, blocks=("update", "candidate"), recurrent=())

    def forward(self, z_RZ, state, probe=no_probe, add=None):
        (h,) = state
        z, n = z_RZ.chunk(2, -1)
        z, n = probe("update", torch.sigmoid(z)), probe("candidate", n)
        h = probe("h", (1 - z) * h + z * n)
        return h, (h,)

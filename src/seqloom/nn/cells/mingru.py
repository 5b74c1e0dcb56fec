"""The minimal gated recurrent unit (minGRU)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import register


@register("cell", "mingru")
class MinGRU(Cell):
    """Minimal GRU (minGRU): gate and candidate depend on the input only, so there is no recurrent matrix.

        z_t = σ(W_z x_t + b_z)
        n_t = W_n x_t + b_n
        h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ n_t

    Feng et al. 2024, "Were RNNs all we needed?". What a step writes to the state
    does not depend on previous steps, except through the layers below. As in the paper, the candidate has no tanh.

    Shapes: z_RZ is R × 2H (update gate, candidate), the state is h, R × H.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        super().__init__(inputs, size, blocks=("update", "candidate"), recurrent=())

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        z, n = z_RZ.chunk(2, -1)
        z, n = probe("update", torch.sigmoid(z)), probe("candidate", n)
        h = probe("h", h + z * (n - h))  # (1 − z) ∘ h + z ∘ n
        return h, (h,)

"""The gated recurrent unit (GRU), in both its variants."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seqloom.nn import fused
from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell, final_hidden
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import register


@register("cell", "gru")
class GRU(Cell):
    """Gated recurrent unit (GRU): an update gate mixes previous state and candidate; a reset gate limits the past.

        r_t = σ(W_r x_t + U_r h_{t−1} + b_r)
        z_t = σ(W_z x_t + U_z h_{t−1} + b_z)
        n_t = tanh(W x_t + U (r_t ∘ h_{t−1}) + b)            reset_after=False
        n_t = tanh(W x_t + b + r_t ∘ (U h_{t−1} + b'))       reset_after=True
        h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ n_t

    As in Chung et al. 2014, z_t is the share of the *new* state. Cho et al. 2014 and PyTorch swap z and 1 − z; since
    σ(−a) = 1 − σ(a), their cell is this one with the signs of W_z, U_z and b_z flipped. Both papers apply the reset
    gate before the matrix multiplication with U. PyTorch's ``nn.GRU`` applies it after, which needs only one matrix
    multiplication for all of U, and a second bias b' that the reset gate multiplies.

    Shapes: z_RZ is R × 3H (reset, update, candidate), the state is h, R × H.

    reset_after: apply the reset gate after the matrix multiplication with U, as PyTorch and Keras do; this has a
        fused kernel. False applies it before, as in the papers.
    """

    def __init__(self, inputs: int | Sequence[int], size: int, *, reset_after: bool = False) -> None:
        blocks = ("reset", "update", "candidate")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        self.reset_after = reset_after
        if reset_after:
            self.candidate_bias = nn.Parameter(torch.zeros(size))

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        U_gates, U = self.recurrent.tensor_split((2 * self.size,))
        z_gates, z_candidate = z_RZ.tensor_split((2 * self.size,), -1)
        r, z = torch.sigmoid(add(U_gates, h, z_gates)).chunk(2, -1)
        r, z = probe("reset", r), probe("update", z)
        if self.reset_after:
            n = torch.tanh(z_candidate + r * add(U, h, self.candidate_bias))
        else:
            n = torch.tanh(add(U, r * h, z_candidate))
        n = probe("candidate", n)
        h = probe("h", h + z * (n - h))  # (1 − z) ∘ h + z ∘ n
        return h, (h,)

    @property
    def has_fused_kernel(self) -> bool:
        return self.reset_after

    def forward_fused(self, x_BSE: Tensor, state: CellState, mask_BS: Tensor | None) -> tuple[Tensor, CellState]:
        # The update gate of PyTorch's kernel is 1 − z: the same weights with the opposite sign.
        sign = torch.ones_like(self.bias)
        self.named_blocks(sign)["update"].neg_()
        weights = [
            self.input_weight() * sign[:, None],
            self.recurrent * sign[:, None],
            self.bias * sign,
            torch.cat((torch.zeros_like(self.bias[self.size :]), self.candidate_bias)),
        ]
        h_BSH = fused.gru(x_BSE, state[0], weights)
        return h_BSH, (final_hidden(h_BSH, mask_BS, state[0]),)

"""The gated recurrent unit, in both its forms."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.nn import fused
from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell, last_real
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent
from seqloom.registry import register


@register("cell", "gru")
class GRU(Cell):
    """Gated recurrent unit: one gate moves between the old state and a candidate, one resets the past.

        r_t = σ(W_r x_t + U_r h_{t−1} + b_r)
        z_t = σ(W_z x_t + U_z h_{t−1} + b_z)
        n_t = tanh(W x_t + U (r_t ∘ h_{t−1}) + b)            reset before the product
        n_t = tanh(W x_t + b + r_t ∘ (U h_{t−1} + b'))       reset after it
        h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ n_t

    As Chung et al. 2014 write it: z_t is how much is *new*. Cho et al. 2014 and PyTorch swap z and 1 − z, so there
    it is how much stays; as σ(−a) = 1 − σ(a), theirs is this cell with the signs of W_z, U_z and b_z turned.
    Both papers reset before the product. PyTorch's ``nn.GRU`` resets after it, which lets all recurrent products be
    one, and needs a second bias b' since the reset gate multiplies it. Only ``after`` has a fused twin.

    reset: where r_t acts, ``before`` or ``after`` the product with U.
    """

    def __init__(
        self, inputs: int | Sequence[int], size: int, *, reset: Literal["before", "after"] = "before"
    ) -> None:
        blocks = ("reset", "update", "candidate")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        self.reset = reset
        if reset == "after":
            self.candidate_bias = nn.Parameter(torch.zeros(size))

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        U_gates, U = self.recurrent.tensor_split((2 * self.size,))
        z_gates, z_candidate = z_RZ.tensor_split((2 * self.size,), -1)
        r, z = torch.sigmoid(add(U_gates, h, z_gates)).chunk(2, -1)
        r, z = probe("reset", r), probe("update", z)
        if self.reset == "before":
            n = torch.tanh(add(U, r * h, z_candidate))
        else:
            n = torch.tanh(z_candidate + r * add(U, h, self.candidate_bias))
        n = probe("candidate", n)
        h = probe("h", h + z * (n - h))  # (1 − z) ∘ h + z ∘ n
        return h, (h,)

    @property
    def has_twin(self) -> bool:
        return self.reset == "after"

    def run_twin(self, x_BSE: Tensor, state: CellState, real_BS: Tensor | None) -> tuple[Tensor, CellState]:
        # The twin's update gate is 1 − z: the same weights with their signs turned.
        sign = torch.ones_like(self.bias)
        self.named_blocks(sign)["update"].neg_()
        weights = [
            self.input_weight() * sign[:, None],
            self.recurrent * sign[:, None],
            self.bias * sign,
            torch.cat((torch.zeros_like(self.bias[self.size :]), self.candidate_bias)),
        ]
        h_BSH = fused.gru(x_BSE, state[0], weights)
        return h_BSH, (last_real(h_BSH, real_BS, state[0]),)

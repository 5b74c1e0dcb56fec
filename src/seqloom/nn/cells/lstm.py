"""The long short-term memory and its ablations."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqloom.errors import OptionError
from seqloom.nn import fused
from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell, last_real
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent
from seqloom.registry import register

HOLD = 1e4
"""What makes a gate wholly open or shut, at an input of zero and |U h| of any sane size: σ(±HOLD) is 1 or 0."""


@register("cell", "lstm")
class LSTM(Cell):
    """Long short-term memory: gates decide what its cell state forgets, takes in and shows.

        i_t = σ(W_i x_t + U_i h_{t−1} + b_i)
        f_t = σ(W_f x_t + U_f h_{t−1} + b_f)
        g_t = tanh(W_g x_t + U_g h_{t−1} + b_g)
        o_t = σ(W_o x_t + U_o h_{t−1} + b_o)
        c_t = f_t ∘ c_{t−1} + i_t ∘ g_t
        h_t = o_t ∘ tanh(c_t)

    Hochreiter and Schmidhuber 1997; the forget gate by Gers et al. 2000. The ablations are those of Jozefowicz et
    al. 2015: a gate that is removed is the constant 1 and has no parameters.

    forget_bias: what b_f is set to at first. 1 is their "LSTM-b", 0 the plain LSTM.
    forget_gate: False is their "LSTM-f".
    input_gate: False is their "LSTM-i".
    output_gate: False is their "LSTM-o".
    """

    parts: ClassVar[tuple[str, ...]] = ("h", "c")

    def __init__(
        self,
        inputs: int | Sequence[int],
        size: int,
        *,
        forget_bias: float = 1.0,
        forget_gate: bool = True,
        input_gate: bool = True,
        output_gate: bool = True,
    ) -> None:
        kept = {"input": input_gate, "forget": forget_gate, "candidate": True, "output": output_gate}
        blocks = tuple(name for name, keep in kept.items() if keep)
        if not forget_gate and forget_bias != 1.0:
            raise OptionError("cell 'lstm': forget_bias has no use with forget_gate=False")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        if forget_gate:
            nn.init.constant_(self.named_blocks(self.bias.data)["forget"], forget_bias)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        h, c = state
        a = self.named_blocks(add(self.recurrent, h, z_RZ))

        def gate(name: str) -> Tensor | float:
            return probe(name, torch.sigmoid(a[name])) if name in a else 1.0

        i, f, o = gate("input"), gate("forget"), gate("output")
        g = probe("candidate", torch.tanh(a["candidate"]))
        c = probe("c", f * c + i * g)
        h = probe("h", o * torch.tanh(c))
        return h, (h, c)

    @property
    def has_twin(self) -> bool:
        return len(self.blocks) == 4

    def run_twin(self, x_BSE: Tensor, state: CellState, real_BS: Tensor | None) -> tuple[Tensor, CellState]:
        weight = self.input_weight()
        if real_BS is not None:
            # The twin runs on through the padding and returns only the very last c. So padding raises one more
            # input, which shuts the input gate and opens the forget gate: c is carried to the end untouched.
            x_BSE = torch.cat((x_BSE, (~real_BS)[..., None].to(x_BSE)), -1)
            gates = torch.tensor([-HOLD, HOLD, 0.0, 0.0], dtype=weight.dtype, device=weight.device)
            weight = torch.cat((weight, gates.repeat_interleave(self.size)[:, None]), 1)
        weights = [weight, self.recurrent, self.bias, torch.zeros_like(self.bias)]
        h_BSH, c_BH = fused.lstm(x_BSE, state[0], state[1], weights)
        return h_BSH, (last_real(h_BSH, real_BS, state[0]), c_BH)

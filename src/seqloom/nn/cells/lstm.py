"""Long short-term memory (LSTM) and its ablations."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqloom.errors import ConfigError
from seqloom.nn import fused
from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell, final_hidden
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import register

SATURATION = 1e4
"""A preactivation that fully opens or closes a gate for any realistic |U h|: σ(±SATURATION) is 1 or 0."""


@register("cell", "lstm")
class LSTM(Cell):
    """Long short-term memory (LSTM): input, forget and output gates control a cell state.

        i_t = σ(W_i x_t + U_i h_{t−1} + b_i)
        f_t = σ(W_f x_t + U_f h_{t−1} + b_f)
        g_t = tanh(W_g x_t + U_g h_{t−1} + b_g)
        o_t = σ(W_o x_t + U_o h_{t−1} + b_o)
        c_t = f_t ∘ c_{t−1} + i_t ∘ g_t
        h_t = o_t ∘ tanh(c_t)

    Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000. The ablations are those of Jozefowicz et al.
    2015: a removed gate is constant 1 and has no parameters. Only the LSTM with all gates has a fused kernel.

    Shapes: z_RZ is R × 4H (input, forget, candidate, output), less H per removed gate; the state is h and c, each
    R × H.

    forget_bias: initial value of the forget gate bias b_f; 1 is "LSTM-b" of Jozefowicz et al. 2015, 0 the plain LSTM.
    forget_gate: use a forget gate; false is "LSTM-f" of Jozefowicz et al. 2015.
    input_gate: use an input gate; false is "LSTM-i" of Jozefowicz et al. 2015.
    output_gate: use an output gate; false is "LSTM-o" of Jozefowicz et al. 2015.
    """

    state_names: ClassVar[tuple[str, ...]] = ("h", "c")

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
        gates = {"input": input_gate, "forget": forget_gate, "candidate": True, "output": output_gate}
        blocks = tuple(name for name, keep in gates.items() if keep)
        if not forget_gate and forget_bias != 1.0:
            raise ConfigError("cell 'lstm': forget_bias has no effect with forget_gate=False: remove it")
        super().__init__(inputs, size, blocks=blocks, recurrent=blocks)
        if forget_gate:
            nn.init.constant_(self.named_blocks(self.bias.data)["forget"], forget_bias)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
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
    def has_fused_kernel(self) -> bool:
        return len(self.blocks) == 4

    def forward_fused(self, x_BSE: Tensor, state: CellState, mask_BS: Tensor | None) -> tuple[Tensor, CellState]:
        weight = self.input_weight()
        if mask_BS is not None:
            # The fused kernel also processes the padding, and returns c of the very last step only. So an additional
            # input is 1 for padding; it closes the input gate and opens the forget gate, which keeps c unchanged.
            x_BSE = torch.cat((x_BSE, (~mask_BS)[..., None].to(x_BSE)), -1)
            column = torch.tensor([-SATURATION, SATURATION, 0.0, 0.0], dtype=weight.dtype, device=weight.device)
            weight = torch.cat((weight, column.repeat_interleave(self.size)[:, None]), 1)
        weights = [weight, self.recurrent, self.bias, torch.zeros_like(self.bias)]
        h_BSH, c_BH = fused.lstm(x_BSE, state[0], state[1], weights)
        return h_BSH, (final_hidden(h_BSH, mask_BS, state[0]), c_BH)

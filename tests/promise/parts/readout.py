"""A gated linear unit on state and context."""

import torch
from torch import nn

from seqloom import register
from seqloom.models.readouts import Readout


@register("readout", "outside_glu")
class OutsideGlu(Readout):
    """f = σ(W_1 [s; a] + b_1) ∘ (W_2 [s; a] + b_2) (Dauphin et al. 2017)."""

    def __init__(self, input_size, state_size, context_size):
        super().__init__(input_size, state_size, context_size)
        self.output_size = state_size
        self.linear = nn.Linear(state_size + context_size, 2 * state_size)

    def combine(self, y, s, a):
        return torch.cat((s, a), -1)

    def activate(self, z):
        gate, value = z.chunk(2, -1)
        return torch.sigmoid(gate) * value

"""A ramp as positional encoding."""

import torch
from torch import nn

from seqloom import register
from seqloom.nn.positions import PositionalEncoding


@register("positional_encoding", "outside_ramp")
class OutsideRamp(PositionalEncoding):
    """x_t + tanh(t / 10) v, with a learned v."""

    def __init__(self, size):
        super().__init__(size)
        self.direction = nn.Parameter(torch.randn(size) * 0.1)

    def forward(self, x_BTH, start=0):
        t = torch.arange(start, start + x_BTH.shape[1], device=x_BTH.device, dtype=x_BTH.dtype)
        return x_BTH + torch.tanh(t / 10)[:, None] * self.direction

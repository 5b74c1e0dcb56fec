"""A first state that is linear in the summary."""

from torch import nn

from seqloom import register
from seqloom.errors import SizeError
from seqloom.models.bridges import Bridge


@register("bridge", "outside_linear")
class OutsideLinear(Bridge):
    """s_0 = W · summary, for every part of every layer's state."""

    reads = frozenset({"summary"})

    def __init__(self, encoder, decoder):
        super().__init__(encoder, decoder)
        if decoder is None:
            raise SizeError("bridge 'outside_linear': this decoder keeps no state: use bridge 'none'")
        self.linear = nn.ModuleList(nn.Linear(encoder.summary_size, decoder.size, bias=False) for _ in decoder.names)
        self.names = decoder.names

    def forward(self, memory):
        return {name: linear(memory["summary"]) for name, linear in zip(self.names, self.linear, strict=True)}

"""A bridge that is linear in the encoder's summary."""

from torch import nn

from seqloom import register
from seqloom.errors import ShapeError
from seqloom.models.bridges import Bridge


@register("bridge", "outside_linear")
class OutsideLinear(Bridge):
    """s_0 = W · summary, for every tensor of every layer's state."""

    reads = frozenset({"summary"})

    def __init__(self, encoder, decoder):
        super().__init__(encoder, decoder)
        if decoder is None:
            raise ShapeError("bridge 'outside_linear' sets an initial state, but this decoder has none: use 'none'")
        self.linear = nn.ModuleList(
            nn.Linear(encoder.summary_size, decoder.hidden_size, bias=False) for _ in decoder.names
        )
        self.names = decoder.names

    def forward(self, memory):
        return {name: linear(memory["summary"]) for name, linear in zip(self.names, self.linear, strict=True)}

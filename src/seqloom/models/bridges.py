"""Bridges: from the encoder to the decoder's first state."""

import torch
from torch import Tensor, nn

from seqloom.errors import SizeError
from seqloom.models.encoders import Encoder
from seqloom.models.encoders.base import StateShape
from seqloom.nn.memory import Memory
from seqloom.registry import register


class Bridge(nn.Module):
    """The decoder's first state from what the encoder left, as ``LAYER.NAME``; None: the decoder's own.

    reads: what of the memory it reads, of ``summary`` and ``final``.
    """

    reads: frozenset[str] = frozenset()

    def __init__(self, encoder: Encoder, decoder: StateShape | None) -> None:
        super().__init__()

    def forward(self, memory: Memory) -> dict[str, Tensor] | None:
        raise NotImplementedError


def _needs_state(name: str, decoder: StateShape | None) -> StateShape:
    if decoder is None:
        raise SizeError(f"bridge {name!r} makes a first state, and this decoder keeps none: use bridge 'none'")
    return decoder


@register("bridge", "state")
class StateBridge(Bridge):
    """The encoder's last state itself, layer by layer: cell, layers and width must match.

    Sutskever et al. 2014.
    """

    reads = frozenset({"final"})

    def __init__(self, encoder: Encoder, decoder: StateShape | None) -> None:
        super().__init__(encoder, decoder)
        decoder = _needs_state("state", decoder)
        if encoder.final != decoder:
            raise SizeError(
                f"bridge 'state' hands the encoder's last state over as it is, but the encoder ends with "
                f"{encoder.final or 'none'} and the decoder starts with {decoder}: make them equal (both directions "
                "of an encoder count side by side), or use bridge 'perceptron'"
            )

    def forward(self, memory: Memory) -> dict[str, Tensor]:
        final = "final."
        return {name.removeprefix(final): tensor for name, tensor in memory.items() if name.startswith(final)}


@register("bridge", "perceptron")
class PerceptronBridge(Bridge):
    """One tanh layer on the encoder's summary, for every part of every layer's state.

        s_0 = tanh(W · summary + b)

    Cho et al. 2014, Bahdanau et al. 2015.
    """

    reads = frozenset({"summary"})

    def __init__(self, encoder: Encoder, decoder: StateShape | None) -> None:
        super().__init__(encoder, decoder)
        self.shape = _needs_state("perceptron", decoder)
        parts = len(self.shape.names)
        self.linear = nn.Linear(encoder.summary_size, parts * self.shape.size)
        for weight in self.linear.weight.data.chunk(parts):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, memory: Memory) -> dict[str, Tensor]:
        names = self.shape.names
        states = torch.tanh(self.linear(memory["summary"])).chunk(len(names), -1)
        return {name: state.contiguous() for name, state in zip(names, states, strict=True)}


@register("bridge", "none")
class NoBridge(Bridge):
    """Nothing: the decoder begins in a state of its own, and hears of the source by its context alone."""

    def forward(self, memory: Memory) -> None:
        return None

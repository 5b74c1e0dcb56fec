"""Bridges: from the encoder's output to the decoder's initial state."""

import torch
from torch import Tensor, nn

from seqloom.errors import ShapeError
from seqloom.models.encoders import Encoder
from seqloom.models.encoders.base import StateShape
from seqloom.nn.memory import Memory
from seqloom.registry import register


class Bridge(nn.Module):
    """Computes the decoder's initial state, ``LAYER.NAME`` each, from the memory; None: the decoder uses its own.

    encoder: the encoder whose output the memory holds.
    decoder: the shape of the decoder's initial state; None if a bridge can't set it.

    reads: which of ``summary`` and ``final`` it reads from the memory.
    """

    reads: frozenset[str] = frozenset()

    def __init__(self, encoder: Encoder, decoder: StateShape | None) -> None:
        super().__init__()

    def forward(self, memory: Memory) -> dict[str, Tensor] | None:
        raise NotImplementedError


def _require_state(name: str, decoder: StateShape | None) -> StateShape:
    if decoder is None:
        raise ShapeError(f"bridge {name!r} sets an initial state, but this decoder has none: use bridge 'none'")
    return decoder


@register("bridge", "copy")
class CopyBridge(Bridge):
    """Copy of the encoder's final state, layer by layer; cell, number of layers and size must match.

    Sutskever et al. 2014.
    """

    reads = frozenset({"final"})

    def __init__(self, encoder: Encoder, decoder: StateShape | None) -> None:
        super().__init__(encoder, decoder)
        decoder = _require_state("copy", decoder)
        if encoder.final_state_shape != decoder:
            raise ShapeError(
                "bridge 'copy' copies the encoder's final state, but the encoder ends with "
                f"{encoder.final_state_shape or 'none'} and the decoder starts with {decoder}: make them equal (both "
                "directions of an encoder are concatenated), or use bridge 'dense'"
            )

    def forward(self, memory: Memory) -> dict[str, Tensor]:
        final = "final."
        return {name.removeprefix(final): tensor for name, tensor in memory.items() if name.startswith(final)}


@register("bridge", "dense")
class DenseBridge(Bridge):
    """A tanh layer on the encoder's summary for every tensor of every layer's state.

        s_0 = tanh(W · summary + b)

    Cho et al. 2014, Bahdanau et al. 2015.
    """

    reads = frozenset({"summary"})

    def __init__(self, encoder: Encoder, decoder: StateShape | None) -> None:
        super().__init__(encoder, decoder)
        self.shape = _require_state("dense", decoder)
        tensors = len(self.shape.names)
        self.linear = nn.Linear(encoder.summary_size, tensors * self.shape.hidden_size)
        for weight in self.linear.weight.data.chunk(tensors):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, memory: Memory) -> dict[str, Tensor]:
        names = self.shape.names
        states = torch.tanh(self.linear(memory["summary"])).chunk(len(names), -1)
        return {name: state.contiguous() for name, state in zip(names, states, strict=True)}


@register("bridge", "none")
class NoBridge(Bridge):
    """No bridge: the decoder starts from its own initial state and reads the source only through its context."""

    def forward(self, memory: Memory) -> None:
        return None

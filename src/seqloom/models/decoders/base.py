"""The base class of decoders."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from seqloom.models.encoders.base import StateShape
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory
from seqloom.nn.probe import Probe, no_probe


class DecoderInputSizes(NamedTuple):
    """The sizes that a decoder is built for: of its inputs, of the encoder's values, and of the encoder's summary.

    The last two are None in a language model, which has no source.
    """

    input_size: int
    value_size: int | None = None
    summary_size: int | None = None


class Decoder(nn.Module):
    """Computes the features of every target step.

    Calling ``step`` repeatedly gives the same features as ``forward`` on the whole target.

    output_size: size of the features.
    initial_state_shape: the shape of the initial state that a bridge may set; None if a bridge can't set it.
    reads: which of ``values`` and ``summary`` it reads from the memory.
    learns_initial_state: whether its own initial state is learned.
    max_length: the maximum number of target tokens, EOS not counted; None: no limit.
    attends_to: whether its attention weights refer to the ``source`` or to the ``past``; None: it returns none.
    embedding_init_std: the initial standard deviation of the embeddings that the decoder reads.
    """

    output_size: int
    initial_state_shape: StateShape | None = None
    reads: frozenset[str] = frozenset()
    learns_initial_state: bool = False
    max_length: int | None = None
    attends_to: Literal["source", "past"] | None = None
    embedding_init_std: float = 1.0

    adam: ClassVar[Mapping[str, Any]] = {}
    """Default options of Adam for this decoder, which override the defaults for the amount of data."""
    warmup: ClassVar[int] = 200
    """The default number of warm-up updates for this decoder."""

    def prepare_memory(self, values_BSH: Tensor) -> dict[str, Tensor]:
        """Memory entries that are computed from the values once, before the first step."""
        return {}

    def initial_state(self, memory: Memory, given: Mapping[str, Tensor] | None) -> DecoderState:
        """The state before the first step.

        given: the tensors that a bridge set, as ``LAYER.NAME``; None without a bridge.
        """
        raise NotImplementedError

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = no_probe) -> DecoderOutput:
        """Run one step of every row; the rows of a sentence share its memory."""
        raise NotImplementedError

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = no_probe
    ) -> DecoderOutput:
        """Run all steps of a known target.

        attention: whether to return attention weights, if the decoder has any.
        """
        raise NotImplementedError

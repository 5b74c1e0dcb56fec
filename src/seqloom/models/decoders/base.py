"""What a decoder is."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from seqloom.models.encoders.base import StateShape
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory
from seqloom.nn.probe import Probe, silent


class Surroundings(NamedTuple):
    """What a decoder is told of its model: sizes of its inputs, of the values, of the summary.

    The last two are None in a language model, which has no source.
    """

    input_size: int
    value_size: int | None = None
    summary_size: int | None = None


class Decoder(nn.Module):
    """The target, one step after another.

    ``step`` repeated gives what ``forward`` gives for the whole target.

    output_size: of the features.
    first: the shape of the first state that a bridge may give; None where there is none to give.
    reads: what of the memory it reads, of ``values`` and ``summary``.
    learns_first: whether it has a learned first state of its own.
    longest: how many tokens a target can have, END not counted; None: any number.
    attends_to: what its attention weights are about; None: it shows none.
    input_deviation: the standard deviation that embeddings should begin with, to suit it.
    """

    output_size: int
    first: StateShape | None = None
    reads: frozenset[str] = frozenset()
    learns_first: bool = False
    longest: int | None = None
    attends_to: Literal["source", "past"] | None = None
    input_deviation: float = 1.0

    adam: ClassVar[Mapping[str, Any]] = {}
    """Options of Adam that suit it better than what suits the amount of data."""
    warmup: ClassVar[int] = 200
    """Updates of warm-up that suit it."""

    def prepare(self, values_BSH: Tensor) -> dict[str, Tensor]:
        """What can be computed from the values before the first step, by name, for the memory."""
        return {}

    def initial_state(self, memory: Memory, given: Mapping[str, Tensor] | None) -> DecoderState:
        """The state before the first step, with what a bridge gave."""
        raise NotImplementedError

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> DecoderOutput:
        """One step of every row; a sentence's rows share its memory."""
        raise NotImplementedError

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = silent
    ) -> DecoderOutput:
        """All steps of a known target; with the attention weights, if asked for, where there are any."""
        raise NotImplementedError

"""What a decoder is."""

from typing import NamedTuple

from torch import Tensor, nn

from seqloom.models.encoders.base import StateShape
from seqloom.nn.memory import CellState, Decoded, Memory, State, Step
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
    input_deviation: the standard deviation that embeddings should begin with, to suit it.
    """

    output_size: int
    first: StateShape | None = None
    reads: frozenset[str] = frozenset()
    learns_first: bool = False
    longest: int | None = None
    input_deviation: float = 1.0

    def prepare(self, values_BSH: Tensor) -> dict[str, Tensor]:
        """What this decoder's attentions can compute of the values before the first step, by name."""
        return {}

    def start(self, memory: Memory, first: tuple[CellState, ...] | None) -> State:
        """The state before the first step, with what a bridge gave."""
        raise NotImplementedError

    def step(self, e_RE: Tensor, state: State, memory: Memory, *, probe: Probe = silent) -> Step:
        """One step of every row; a sentence's rows share its memory."""
        raise NotImplementedError

    def forward(
        self, e_BTE: Tensor, state: State, memory: Memory, *, weights: bool = False, probe: Probe = silent
    ) -> Decoded:
        """All steps of a target that is known; ``weights`` of attention, if asked for, where there are any."""
        raise NotImplementedError

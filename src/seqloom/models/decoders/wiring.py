"""How the context of a recurrent decoder is made and where it goes: the options, and which of them go together."""

from dataclasses import dataclass
from typing import Literal

from seqloom.errors import OptionError
from seqloom.models.decoders.base import Surroundings
from seqloom.models.readouts import Readout
from seqloom.nn.attention import Attention

Context = Literal["none", "summary", "previous", "current", "past"]
Into = Literal["cell", "above"]
ATTENDING: tuple[Context, ...] = ("previous", "current", "past")
"""Contexts that come from attention."""


@dataclass(frozen=True)
class Wiring:
    """One way to wire a recurrent decoder; ``RecurrentDecoder`` explains the options."""

    context: Context
    into: Into | None
    input_feeding: bool
    include_current: bool

    @property
    def attends(self) -> bool:
        """Whether the context comes from attention."""
        return self.context in ATTENDING

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """What the attention weights are about."""
        return None if not self.attends else "past" if self.context == "past" else "source"

    @property
    def attends_after(self) -> bool:
        """Whether the query is this step's state, so that the context comes after it."""
        return self.context in ("current", "past")

    @property
    def sequential(self) -> bool:
        """Whether a step needs what the step before it attended to, so that steps can't run in parallel."""
        return self.context == "previous" or self.input_feeding

    @property
    def reads(self) -> frozenset[str]:
        """What of the memory the decoder reads: its values, its summary, or nothing."""
        read = {"summary": "summary", "previous": "values", "current": "values"}.get(self.context)
        return frozenset((read,) if read else ())

    def context_size(self, surroundings: Surroundings, size: int) -> int:
        """The size of the context, for a decoder of hidden size ``size``."""
        if self.context == "none":
            return 0
        if self.context == "past":
            return size
        wanted = surroundings.summary_size if self.context == "summary" else surroundings.value_size
        if wanted is None:
            raise self._error(
                f"context={self.context!r} is about a source, and a language model has none: use 'none' or 'past'"
            )
        return wanted

    def check(
        self, layers: int, name: str, readout: Readout, attention: Attention | None, *, has_options: bool
    ) -> None:
        """Refuse what can't be wired, and what nothing would read.

        name: the readout's. has_options: whether attention was given any.
        """
        if self.into == "cell" and self.context not in ("summary", "previous"):
            raise self._error(
                f"into='cell' needs a context that is known before the cell runs: 'summary' or 'previous', "
                f"not {self.context!r}"
            )
        if self.into == "above" and (self.context in ("none", "previous") or layers < 2):
            raise self._error("into='above' passes a summary or what the first layer attends to into a second layer")
        if self.context == "previous" and self.into != "cell":
            raise self._error("context='previous' is there to enter the cell: set into='cell'")
        if readout.uses_context and self.context == "none":
            raise self._error(f"readout={name!r} reads a context, and context='none': use readout='state'")
        if self.context != "none" and self.into is None and not readout.uses_context:
            raise self._error(f"nothing reads the context: set into, or another readout than {name!r}")
        if self.include_current and self.context != "past":
            raise self._error("include_current is an option of context='past'")
        if has_options and not self.attends:
            raise self._error(f"attention has options, but context={self.context!r} does not attend")
        if attention is not None and attention.carrying and self.context == "past":
            (carrying, *_) = attention.carrying
            raise self._error(
                f"the {carrying} of this attention keeps a past for every key, and with context='past' the keys grow "
                "at every step: attend to the source (context='current' or 'previous')"
            )
        if not readout.uses_state:
            self._check_state_is_read(name, attention)

    def _check_state_is_read(self, readout: str, attention: Attention | None) -> None:
        """Refuse features that are a context which no state, or not the top one, has a part in."""
        if self.into == "above" or self.context == "summary":
            raise self._error(
                f"readout={readout!r} with context={self.context!r}, into={self.into!r} leaves out the state"
            )
        blind = attention is not None and (attention.score.static or not attention.normaliser.differentiable)
        if blind and self.context != "past":
            raise self._error(
                f"readout={readout!r} learns of the state through the weights of attention alone, and this attention "
                "passes nothing on: use another readout, or a softmax over a score that reads the query"
            )

    @staticmethod
    def _error(problem: str) -> OptionError:
        return OptionError(f"decoder 'recurrent': {problem}")

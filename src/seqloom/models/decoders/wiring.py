"""How a recurrent decoder computes its context and where it feeds it: the options and their valid combinations."""

from dataclasses import dataclass
from typing import Literal

from seqloom.errors import ConfigError
from seqloom.models.decoders.base import DecoderInputSizes
from seqloom.models.readouts import Readout
from seqloom.nn.attention import Attention

Context = Literal["none", "summary", "previous", "current", "past"]
ContextInput = Literal["first_layer", "second_layer"]
ATTENDING: tuple[Context, ...] = ("previous", "current", "past")
"""The contexts that are computed by attention."""


@dataclass(frozen=True)
class Wiring:
    """One wiring of a recurrent decoder; ``RecurrentDecoder`` explains the options."""

    context: Context
    context_input: ContextInput | None
    input_feeding: bool
    include_current: bool

    @property
    def attends(self) -> bool:
        """Whether the context is computed by attention."""
        return self.context in ATTENDING

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """Whether attention weights refer to the ``source`` or to the ``past``; None: there is no attention."""
        return None if not self.attends else "past" if self.context == "past" else "source"

    @property
    def attends_after(self) -> bool:
        """Whether the query is the current state, so that the context is computed after the cell."""
        return self.context in ("current", "past")

    @property
    def sequential(self) -> bool:
        """Whether a step depends on the previous context, so that training can't run the steps in parallel."""
        return self.context == "previous" or self.input_feeding

    @property
    def reads(self) -> frozenset[str]:
        """Which of ``values`` and ``summary`` the decoder reads from the memory."""
        read = {"summary": "summary", "previous": "values", "current": "values"}.get(self.context)
        return frozenset((read,) if read else ())

    def context_size(self, input_sizes: DecoderInputSizes, hidden_size: int) -> int:
        """The size of the context."""
        if self.context == "none":
            return 0
        if self.context == "past":
            return hidden_size
        size = input_sizes.summary_size if self.context == "summary" else input_sizes.value_size
        if size is None:
            raise self._error(
                f"context={self.context!r} reads the source, but a language model has none: use 'none' or 'past'"
            )
        return size

    def check(
        self, layers: int, name: str, readout: Readout, attention: Attention | None, *, has_options: bool
    ) -> None:
        """Refuse invalid combinations, and those in which a part would be unused.

        name: the name of the readout.
        has_options: whether options of the attention are set.
        """
        if self.context_input == "first_layer" and self.context not in ("summary", "previous"):
            raise self._error(
                "context_input='first_layer' needs a context that is known before the cell runs, 'summary' or "
                f"'previous', not {self.context!r}"
            )
        if self.context_input == "second_layer" and (self.context in ("none", "previous") or layers < 2):
            raise self._error(
                "context_input='second_layer' needs at least 2 layers, and context 'summary', 'current' or 'past'"
            )
        if self.context == "previous" and self.context_input != "first_layer":
            raise self._error("context='previous' must be fed to the first layer: set context_input='first_layer'")
        if readout.uses_context and self.context == "none":
            raise self._error(f"readout={name!r} reads a context, but context='none': use readout='state'")
        if self.context != "none" and self.context_input is None and not readout.uses_context:
            raise self._error(f"the context is unused: set context_input, or a readout other than {name!r}")
        if self.include_current and self.context != "past":
            raise self._error("include_current=True needs context='past'")
        if has_options and not self.attends:
            raise self._error(
                f"attention has no effect with context={self.context!r}: remove it, or set context to previous, "
                "current or past"
            )
        if attention is not None and attention.stateful_parts and self.context == "past":
            (part, *_) = attention.stateful_parts
            raise self._error(
                f"the {part} of this attention keeps a state for every key, but with context='past' the number of "
                "keys grows at every step: attend to the source (context='current' or 'previous')"
            )
        if not readout.uses_state:
            self._check_state_is_read(name, attention)

    def _check_state_is_read(self, readout: str, attention: Attention | None) -> None:
        """Refuse a readout of the context alone if the context does not depend on the top layer's state."""
        if self.context_input == "second_layer" or self.context == "summary":
            raise self._error(
                f"readout={readout!r} ignores the top layer's state with context={self.context!r} and "
                f"context_input={self.context_input!r}: use another readout"
            )
        no_gradient = attention is not None and (
            attention.score.position_only or not attention.normalizer.differentiable
        )
        if no_gradient and self.context != "past":
            raise self._error(
                f"readout={readout!r} depends on the state through the attention weights alone, but this attention "
                "passes no gradient to the state: use another readout, or a softmax over a score that reads the query"
            )

    @staticmethod
    def _error(problem: str) -> ConfigError:
        return ConfigError(f"decoder 'recurrent': {problem}")

"""What search and scoring ask of a model, and nothing more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

from seqloom.batch import Padded
from seqloom.errors import SeqloomError
from seqloom.nn.memory import DecoderState, NextStep
from seqloom.nn.probe import Probe

if TYPE_CHECKING:
    from seqloom.decode.hypothesis import Hypothesis
    from seqloom.decode.lengths import Limits
    from seqloom.decode.masks import Masks
    from seqloom.decode.search import Search

Asked = TypeVar("Asked", contravariant=True)
"""What a model takes for a batch: a ``Batch``; an ensemble takes one for each of its models, too."""


class SharedMemory(Protocol):
    """What is fixed for a source, as search sees it."""

    @property
    def mask(self) -> Tensor:
        """B S, True for the real steps that attention weights are about."""

    def select(self, rows: Tensor, /) -> Self:
        """The memory of some of the sentences."""


class StepModel(Protocol[Asked]):
    """A model that search and scoring work on; R = B·K rows, a sentence's K beams adjacent, sharing its memory."""

    training: bool

    @property
    def max_length(self) -> int | None:
        """How many tokens a target can have; None: any number."""

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """What the attention weights are about; None: there are none."""

    def encode(self, batch: Asked, /, *, probe: Probe = ...) -> Any:
        """Everything that is fixed once the batch's sources are known: a ``SharedMemory``."""

    def initial_state(self, memory: Any, /) -> DecoderState:
        """The state before the first step, one row per sentence."""

    def next_log_probs(self, last: Tensor, state: DecoderState, memory: Any, /, *, probe: Probe = ...) -> NextStep:
        """What follows the tokens ``last``; the log-probabilities are fresh, as search writes −∞ into them."""

    def log_probs(self, target: Padded, memory: Any, /) -> Iterator[Tensor]:
        """The log-probabilities of all tokens at the steps of a known target, B t V, a few steps at a time."""


@runtime_checkable
class Finder(Protocol):
    """An engine that searches by itself: it is told how, and refuses what it can't do."""

    def found(
        self, search: "Search", batch: Any, /, *, weights: bool, masks: "Masks", limits: "Limits | None"
    ) -> "list[list[Hypothesis]]":
        """What ``search(model, batch)`` is to give."""


def check_in_use(model: StepModel[Any]) -> None:
    """Refuse a model in training mode: its dropout would make every answer a matter of luck.

    It is not switched here, since another thread may be using the same model.
    """
    if model.training:
        raise SeqloomError("the model is in training mode, with its dropout at work: call model.eval() first")

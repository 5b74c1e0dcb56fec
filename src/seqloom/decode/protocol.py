"""The interface between models and decoding: what search and scoring require of a model, and nothing more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

from seqloom.batch import Padded
from seqloom.errors import SeqloomError
from seqloom.nn.memory import DecoderState, NextStep
from seqloom.nn.probe import Probe

if TYPE_CHECKING:
    from seqloom.decode.constraints import TokenConstraints
    from seqloom.decode.hypothesis import Hypothesis
    from seqloom.decode.lengths import TrainingLengths
    from seqloom.decode.search import Search

BatchT = TypeVar("BatchT", contravariant=True)
"""The type of batch that a model takes: a ``Batch``; an ensemble also takes one per model."""


class SharedMemory(Protocol):
    """The encoded sources, as search sees them."""

    @property
    def mask(self) -> Tensor:
        """B S, True for the non-padding positions that attention weights refer to."""

    def select(self, rows: Tensor, /) -> Self:
        """The memory of the given sentences."""


class StepModel(Protocol[BatchT]):
    """A model that search and scoring can use.

    It has R = B·K rows: the K rows of a sentence are adjacent and share its memory.
    """

    training: bool

    @property
    def max_length(self) -> int | None:
        """Maximum number of target tokens; None: unlimited."""

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """What the attention weights refer to; None: the model has no attention."""

    def encode(self, batch: BatchT, /, *, probe: Probe = ...) -> Any:
        """Compute everything that depends only on the sources of a batch: a ``SharedMemory``."""

    def initial_state(self, memory: Any, /) -> DecoderState:
        """The decoder state before the first step, one row per sentence."""

    def next_log_probs(
        self, prev_token: Tensor, state: DecoderState, memory: Any, /, *, probe: Probe = ...
    ) -> NextStep:
        """Log-probabilities of the next token of every row, in a new tensor: search writes −∞ into it."""

    def log_probs(self, target: Padded, memory: Any, /) -> Iterator[Tensor]:
        """Log-probabilities of all tokens at every step of a given target, B t V, a few steps at a time."""


@runtime_checkable
class SearchEngine(Protocol):
    """An engine that runs its own search, and raises an error for options that it does not support."""

    def search(
        self,
        search: "Search",
        batch: Any,
        /,
        *,
        return_attention: bool,
        constraints: "TokenConstraints",
        training_lengths: "TrainingLengths | None",
    ) -> "list[list[Hypothesis]]":
        """The result of ``search(model, batch)``."""


def require_eval_mode(model: StepModel[Any]) -> None:
    """Raise an error if a model is in training mode: its dropout would make the output random.

    The mode is not changed here, since another thread may be using the same model.
    """
    if model.training:
        raise SeqloomError("the model is in training mode, so its dropout is active: call model.eval() first")

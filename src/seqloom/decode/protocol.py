"""What search asks of a model, and nothing more."""

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.nn.memory import Decoded, Memory, State, Step

if TYPE_CHECKING:
    from seqloom.decode.hypothesis import Hypothesis
    from seqloom.decode.lengths import Limits
    from seqloom.decode.masks import Masks
    from seqloom.decode.search import Search

Asked = TypeVar("Asked", contravariant=True)
"""What a model takes for a batch: a ``Batch``; an ensemble takes one for each of its models, too."""


class SearchedOutput(Protocol):
    """What search asks of a model's output."""

    def start(self, memory: Memory, /) -> Tensor:
        """What is fed before anything is known, one per sentence."""

    def log_probs(self, step: Step, memory: Memory, /) -> Tensor:
        """The log-probability of every next token, R V; a fresh tensor: search writes −∞ on what is forbidden."""


class Searched(Protocol[Asked]):
    """A model that search can work on; R = B·K rows, a sentence's K beams adjacent, sharing its memory."""

    training: bool

    @property
    def output(self) -> SearchedOutput:
        """What turns a step into log-probabilities."""

    def prepare(self, batch: Asked, /) -> Memory:
        """All that is fixed for the batch's sources, made once."""

    def start(self, memory: Memory, /) -> State:
        """The state before the first step, one row per sentence."""

    def step(self, last: Tensor, state: State, memory: Memory, /) -> Step:
        """One step of every row, after the token that came ``last``."""


@runtime_checkable
class Finder(Protocol):
    """An engine that searches by itself: it is told how, and refuses what it can't do."""

    def found(
        self, search: "Search", batch: Any, /, *, weights: bool, masks: "Masks", limits: "Limits | None"
    ) -> "list[list[Hypothesis]]":
        """What ``search(model, batch)`` is to give."""


class ScoredOutput(SearchedOutput, Protocol):
    """What scoring asks of a model's output."""

    @property
    def needs_weights(self) -> bool:
        """Whether ``log_probs`` reads the weights of attention."""

    def shift(self, target_BT: Tensor, mask_BT: Tensor, /) -> Tensor:
        """What is fed for a known target."""


class Scorable(Protocol[Asked]):
    """A model that can score a known target."""

    training: bool

    @property
    def output(self) -> ScoredOutput:
        """What turns features into log-probabilities."""

    def prepare(self, batch: Asked, /) -> Memory:
        """All that is fixed for the batch's sources, made once."""

    def __call__(self, inputs: Tensor, memory: Memory, /, *, weights: bool) -> Decoded:
        """All steps of a known target."""


def check_in_use(model: Searched[Any] | Scorable[Any]) -> None:
    """Refuse a model in training mode: its dropout would make every answer a matter of luck.

    It is not switched here, since another thread may be using the same model.
    """
    if model.training:
        raise SeqloomError("the model is in training mode, with its dropout at work: call model.eval() first")

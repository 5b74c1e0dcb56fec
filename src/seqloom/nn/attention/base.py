"""What a score and a normaliser are."""

from typing import ClassVar

from torch import Tensor, nn

from seqloom.errors import SizeError


class Carrying(nn.Module):
    """What may need its own past from step to step: coverage needs the weights so far, monotonic attention the last.

    A part that does sets ``carries``, writes ``update`` (and ``initial``, if it doesn't start from zeros), and takes
    ``past_BTS`` as the last argument of ``forward``: one past per query. None means that queries are the first of
    their targets.
    """

    carries: ClassVar[bool] = False

    def initial(self, prepared_BSD: Tensor) -> Tensor:
        """The past before the first step, B S; by default zeros."""
        return prepared_BSD.new_zeros(prepared_BSD.shape[:2])

    def update(self, past_BTS: Tensor, weights_BTS: Tensor) -> Tensor:
        """The past after a step that gave these attention weights."""
        raise NotImplementedError


class Score(Carrying):
    """How well a query matches a key, before normalising.

    A score writes ``score``, and ``prepare`` where something about the keys can be computed once for all queries.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.key_size = key_size

    static: ClassVar[bool] = False
    """Whether the score knows positions only: it must be told the target's, and reads neither query nor key."""

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        """What ``score`` wants of the keys, B S first."""
        return keys_BSD

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        """B T S."""
        raise NotImplementedError

    def forward(
        self,
        query_BTD: Tensor,
        prepared_BSD: Tensor,
        position_BT: Tensor | None = None,
        past_BTS: Tensor | None = None,
    ) -> Tensor:
        """B T S; only a score that is static or carries a past overrides this."""
        return self.score(query_BTD, prepared_BSD)

    def require_one_size(self, name: str) -> int:
        """The size that queries and keys share, or an error that says how to make them share one."""
        if self.query_size != self.key_size:
            raise SizeError(
                f"score {name!r} compares queries of size {self.query_size} with keys of size {self.key_size}: "
                "project both to one size (attention: key_layers: 1, query_layers: 1, size: …), or use the score "
                "'bilinear' or 'additive', which take any sizes"
            )
        return self.key_size


class Normaliser(Carrying):
    """From scores to weights: B T S → B T S, zero where the mask is False."""

    differentiable: ClassVar[bool] = True
    """Whether a gradient passes from the weights to the scores."""

    scores: ClassVar[tuple[str, ...] | None] = None
    """The scores it makes sense with; None: with all."""

    complete: ClassVar[bool] = True
    """Whether the weights add up to 1 wherever there is something to see."""

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        raise NotImplementedError

"""Base classes of attention score functions and normalizers."""

from typing import ClassVar

from torch import Tensor, nn

from seqloom.errors import ShapeError


class StatefulPart(nn.Module):
    """A part of attention that may carry a state from decoder step to decoder step: one number per query and key.

    Coverage carries the sum of all previous attention weights; monotonic attention carries the last ones. A stateful
    part sets ``stateful = True``, implements ``update_state`` (and ``initial_state``, if the initial state is not
    zero), and takes ``state_BTS`` as the last argument of ``forward``. ``state_BTS`` is None at the first step of a
    target.
    """

    stateful: ClassVar[bool] = False

    def initial_state(self, projected_BSD: Tensor) -> Tensor:
        """The state before the first step, B S; zeros by default."""
        return projected_BSD.new_zeros(projected_BSD.shape[:2])

    def update_state(self, state_BTS: Tensor, weights_BTS: Tensor) -> Tensor:
        """The state after a step with these attention weights, B T S."""
        raise NotImplementedError


class ScoreFunction(StatefulPart):
    """An attention score function: how well a query matches a key, before normalization.

    Subclasses implement ``score``, and ``project_keys`` if part of the computation depends on the keys only and can
    be done once for all queries.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.key_size = key_size

    position_only: ClassVar[bool] = False
    """Whether scores depend on positions only: ``forward`` needs ``position_BT`` and ignores queries and keys."""

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        """The keys as ``score`` takes them, B S …; by default unchanged."""
        return keys_BSD

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        """Attention scores of queries and projected keys, B T S."""
        raise NotImplementedError

    def forward(
        self,
        query_BTD: Tensor,
        projected_BSD: Tensor,
        position_BT: Tensor | None = None,
        state_BTS: Tensor | None = None,
    ) -> Tensor:
        """Attention scores, B T S. Only a stateful or position-only score function overrides this."""
        return self.score(query_BTD, projected_BSD)

    def require_one_size(self, name: str) -> int:
        """The common size of queries and keys; an error that suggests a solution if they differ."""
        if self.query_size != self.key_size:
            raise ShapeError(
                f"score {name!r} needs queries and keys of the same size, but queries have size {self.query_size} "
                f"and keys size {self.key_size}: project both to one size (attention: key_layers: 1, query_layers: "
                "1, hidden_size: …), or use score 'bilinear' or 'additive', which accept different sizes"
            )
        return self.key_size


class Normalizer(StatefulPart):
    """Turns attention scores into attention weights: B T S → B T S, zero where the mask is False."""

    differentiable: ClassVar[bool] = True
    """Whether gradients flow from the weights to the scores."""

    compatible_scores: ClassVar[tuple[str, ...] | None] = None
    """Names of the score functions it works with; None: all."""

    sums_to_one: ClassVar[bool] = True
    """Whether the weights of every query add up to 1, unless all its keys are masked."""

    def forward(self, scores_BTS: Tensor, mask_BTS: Tensor | None) -> Tensor:
        raise NotImplementedError

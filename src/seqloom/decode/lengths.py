"""Minimum and maximum lengths of hypotheses."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from seqloom.batch import Padded
from seqloom.errors import ConfigError

Ratio = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Target tokens per source position."""
DEFAULT_WITHOUT_SOURCE = 100
"""The default maximum length for a model without a source."""
MARGIN_FACTOR, MARGIN_TOKENS = 1.25, 10
"""The margin of the maximum length over the lengths in the training data: a factor, and a number of tokens."""


@dataclass(frozen=True)
class TrainingLengths:
    """Lengths in the training data, from which the default maximum length of hypotheses is derived.

        max_length(S) = 1.25 · min(ratio · S, target · max(1, S / source)) + 10

    No target of the training data is longer, even without the margin. For sources longer than all of them, the
    maximum grows in proportion; so the output of a model that never predicts EOS stays bounded.

    source, target: tokens of the longest source and of the longest target, EOS not counted.
    ratio: the largest number of target tokens per source token in any one pair.
    """

    source: int
    target: int
    ratio: float

    def max_length(self, S_B: Tensor) -> Tensor:
        """The maximum number of tokens of a hypothesis, EOS not counted, for sources of these lengths."""
        by_ratio_B, by_longest_B = self.ratio * S_B, self.target * (S_B / self.source).clamp(min=1)
        return (MARGIN_FACTOR * torch.minimum(by_ratio_B, by_longest_B) + MARGIN_TOKENS).ceil().long()


class LengthLimits:
    """Minimum and maximum number of tokens of a hypothesis, EOS not counted, for a source of length S.

        minimum = max(min_length, min_length_ratio · S)
        maximum = min(max_length, max_length_ratio · S), at least 1. If neither is set: as in the training data
                  (``TrainingLengths``), or 2·S + 20 if that is unknown, and at least the minimum

    Ratios are rounded to whole tokens. If the two contradict each other for a source, the maximum takes precedence.
    """

    def __init__(
        self, min_length: int, max_length: int | None, min_length_ratio: float, max_length_ratio: float | None
    ) -> None:
        if max_length is not None and min_length > max_length:
            raise ConfigError(f"min_length={min_length} is greater than max_length={max_length}: change one of them")
        if max_length_ratio is not None and min_length_ratio > max_length_ratio:
            raise ConfigError(
                f"min_length_ratio={min_length_ratio} is greater than max_length_ratio={max_length_ratio}: change "
                "one of them"
            )
        self.min_length, self.max_length = min_length, max_length
        self.min_length_ratio, self.max_length_ratio = min_length_ratio, max_length_ratio

    def bounds(
        self,
        source: Padded | None,
        sentences: int,
        device: torch.device,
        *,
        model_max_length: int | None = None,
        training_lengths: TrainingLengths | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The minimum and maximum length of every sentence.

        source: the source of the batch; None if the model has none.
        model_max_length: the maximum that the model supports.
        training_lengths: the lengths in the training data.
        """
        has_source = source is not None
        if not has_source and (self.min_length_ratio or self.max_length_ratio is not None):
            raise ConfigError(
                "min_length_ratio and max_length_ratio are relative to the source length, and this model has no "
                "source: set min_length and max_length instead"
            )
        S_B = torch.zeros(sentences, dtype=torch.long, device=device) if source is None else source.lengths
        min_length_B = (self.min_length_ratio * S_B).round().long().clamp(self.min_length)
        if self.max_length_ratio is not None:
            max_length_B = (self.max_length_ratio * S_B).round().long().clamp(1, self.max_length)
        elif self.max_length is not None:
            max_length_B = torch.full_like(S_B, self.max_length)
        else:
            max_length_B = _default_max_length(S_B, training_lengths, has_source=has_source).maximum(min_length_B)
        if model_max_length is not None:
            max_length_B = max_length_B.clamp(max=model_max_length)
        return min_length_B.minimum(max_length_B), max_length_B


def _default_max_length(S_B: Tensor, training_lengths: TrainingLengths | None, *, has_source: bool) -> Tensor:
    """The maximum length if no option sets one."""
    if not has_source:
        return torch.full_like(S_B, DEFAULT_WITHOUT_SOURCE)
    return 2 * S_B + 20 if training_lengths is None else training_lengths.max_length(S_B)

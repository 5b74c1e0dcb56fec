"""How short and how long an answer may be."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from seqloom.batch import Padded
from seqloom.errors import OptionError

Ratio = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Tokens of the target per step of the source."""
WITHOUT_SOURCE = 100
"""The maximum length where nothing is said and there is no source to go by."""
MARGIN, MORE = 1.25, 10
"""How much longer an output may be than the training data suggests: by a factor, and by so many tokens."""


@dataclass(frozen=True)
class Limits:
    """How long outputs may be, judging by the lengths in the training data, END not counted.

        most(S) = 1.25 · min(ratio · S, target · max(1, S / source)) + 10

    No target of the training data is longer, even without the margin. A source longer than all of them may have an
    output that is longer in proportion; an output that never ends stays bounded.

    source, target: tokens of the longest source and of the longest target.
    ratio: the largest number of target tokens per source token in any one pair.
    """

    source: int
    target: int
    ratio: float

    def most(self, S_B: Tensor) -> Tensor:
        """The most tokens that an output may have, for sources of these lengths."""
        by_ratio_B, by_longest_B = self.ratio * S_B, self.target * (S_B / self.source).clamp(min=1)
        return (MARGIN * torch.minimum(by_ratio_B, by_longest_B) + MORE).ceil().long()


class Lengths:
    """The least and the most tokens of an answer, END not counted, for a source of S steps.

        least = max(min_length, min_ratio · S)
        most  = min(max_length, max_ratio · S); never below 1. If neither is set, it is what the
                training data suggests (``Limits``), or 2·S + 20 where that is not known; and never below least

    Ratios are rounded to whole tokens. Where the two contradict each other for a source, ``most`` holds.
    """

    def __init__(self, min_length: int, max_length: int | None, min_ratio: float, max_ratio: float | None) -> None:
        if max_length is not None and min_length > max_length:
            raise OptionError(f"min_length={min_length} is more than max_length={max_length}: no answer would do")
        if max_ratio is not None and min_ratio > max_ratio:
            raise OptionError(f"min_ratio={min_ratio} is more than max_ratio={max_ratio}: no answer would do")
        self.min_length, self.max_length = min_length, max_length
        self.min_ratio, self.max_ratio = min_ratio, max_ratio

    def bounds(
        self,
        source: Padded | None,
        sentences: int,
        device: torch.device,
        *,
        longest: int | None = None,
        limits: Limits | None = None,
    ) -> tuple[Tensor, Tensor]:
        """``least`` and ``most`` of every sentence.

        source: as it came in, None without one. longest: what the model can write at all. limits: what the training
        data suggests.
        """
        has_source = source is not None
        if not has_source and (self.min_ratio or self.max_ratio is not None):
            raise OptionError("min_ratio and max_ratio are relative to a source, and this model has none")
        S_B = torch.zeros(sentences, dtype=torch.long, device=device) if source is None else source.lengths
        least_B = (self.min_ratio * S_B).round().long().clamp(self.min_length)
        if self.max_ratio is not None:
            most_B = (self.max_ratio * S_B).round().long().clamp(1, self.max_length)
        elif self.max_length is not None:
            most_B = torch.full_like(S_B, self.max_length)
        else:
            most_B = _usual(S_B, limits, has_source=has_source).maximum(least_B)
        if longest is not None:
            most_B = most_B.clamp(max=longest)
        return least_B.minimum(most_B), most_B


def _usual(S_B: Tensor, limits: Limits | None, *, has_source: bool) -> Tensor:
    """The most tokens where no option sets a maximum."""
    if not has_source:
        return torch.full_like(S_B, WITHOUT_SOURCE)
    return 2 * S_B + 20 if limits is None else limits.most(S_B)

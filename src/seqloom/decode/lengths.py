"""How short and how long an answer may be."""

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


class Lengths:
    """The least and the most tokens of an answer, END not counted, for a source of S steps.

        least = max(min_length, min_ratio · S)
        most  = min(max_length, max_ratio · S); never below 1. If neither is set, 2·S + 20, and never below least

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
        self, source: Padded | None, sentences: int, longest: int | None, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """``least`` and ``most`` of every sentence.

        source: as it came in, None without one; longest: what the model can write at all.
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
            usual_B = 2 * S_B + 20 if has_source else torch.full_like(S_B, WITHOUT_SOURCE)
            most_B = usual_B.maximum(least_B)
        if longest is not None:
            most_B = most_B.clamp(max=longest)
        return least_B.minimum(most_B), most_B

"""The angle as a score."""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.attention.base import Score
from seqloom.registry import register


@register("score", "cosine")
class Cosine(Score):
    """The cosine of the angle between query and key, whatever their lengths.

        score(q, k) = q · k / (‖q‖ ‖k‖ τ)

    Graves et al. 2014, "Neural Turing machines", whose key strength β is 1/τ. The cosine lies between −1 and 1, so
    without a temperature below 1 a softmax stays close to uniform. A vector of zeros has the cosine 0 with any other.

    Shapes: queries B × T × D, keys B × S × D, scores B × T × S.

    temperature: τ > 0; the lower, the sharper.
    learned: learn τ (as its logarithm, so it stays positive) or keep it.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        learned: bool = True,
    ) -> None:
        super().__init__(query_size, key_size)
        self.require_one_size("cosine")
        log_temperature = torch.tensor(math.log(temperature))
        if learned:
            self.log_temperature = nn.Parameter(log_temperature)
        else:
            self.register_buffer("log_temperature", log_temperature)

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return F.normalize(keys_BSD, dim=-1)

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        return F.normalize(query_BTD, dim=-1) @ prepared_BSD.mT * (-self.log_temperature).exp()

"""Cosine attention."""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.attention.base import ScoreFunction
from seqloom.registry import register


@register("score", "cosine")
class Cosine(ScoreFunction):
    """Cosine attention score function: the cosine of the angle between query and key, divided by a temperature.

        score(q, k) = q · k / (‖q‖ ‖k‖ τ)

    Graves et al. 2014, "Neural Turing machines", whose key strength β is 1/τ. The cosine lies between −1 and 1, so
    softmax stays close to uniform unless the temperature is below 1. The cosine with a zero vector is 0.

    Shapes: queries B × T × D, keys B × S × D, scores B × T × S.

    temperature: temperature τ > 0 (the initial value if it is learned); lower values give sharper attention.
    learned: learn τ, as its logarithm, so that it stays positive; false keeps it fixed.
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

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return F.normalize(keys_BSD, dim=-1)

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        return F.normalize(query_BTD, dim=-1) @ projected_BSD.mT * (-self.log_temperature).exp()

"""Random numbers that depend only on the seed and the step, so a sentence gets the same ones in any batch."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
"""Seed of a random number generator."""


def uniform(seed: int, t: int, *shape: int) -> Tensor:
    """Uniform numbers in [0, 1) for step t, from a counter-based generator; a longer shape keeps the first ones."""
    numbers = np.random.Generator(np.random.Philox(key=[seed, t]))
    return torch.from_numpy(numbers.random(shape, dtype=np.float32))


def gumbel(seed: int, t: int, *shape: int) -> Tensor:
    """Numbers from the standard Gumbel distribution for step t: −log(−log u)."""
    numbers = np.random.Generator(np.random.Philox(key=[seed, t]))
    return torch.from_numpy(numbers.gumbel(size=shape))

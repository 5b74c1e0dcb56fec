"""Random numbers that are a function of their place: a sentence gets the same ones in any batch."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
"""What a generator of random numbers begins with."""


def uniform(seed: int, t: int, *shape: int) -> Tensor:
    """The numbers of step t, in [0, 1), from a counter-based generator; more of them begin with the same."""
    numbers = np.random.Generator(np.random.Philox(key=[seed, t]))
    return torch.from_numpy(numbers.random(shape, dtype=np.float32))


def gumbel(seed: int, t: int, *shape: int) -> Tensor:
    """Numbers of the standard Gumbel distribution for step t: −log(−log u)."""
    numbers = np.random.Generator(np.random.Philox(key=[seed, t]))
    return torch.from_numpy(numbers.gumbel(size=shape))

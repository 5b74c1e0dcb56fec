"""Dropout with a fast random mask on CPUs."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.errors import ConfigError

LEVELS = 2**16
"""Number of values of a 16-bit random number; the dropout probability is a multiple of 1 / LEVELS."""


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x with each entry set to 0 with probability p and otherwise divided by 1 − p, which preserves the mean."""
    if not training or p == 0:
        return x
    return x * dropout_mask(x.shape, p, x)


def dropout_mask(shape: Sequence[int], p: float, like: Tensor) -> Tensor:
    """A dropout mask to multiply with: 0 with probability p, else 1 / (1 − p).

    On a CPU, PyTorch's dropout draws one random number per entry; in a Transformer, only the matrix multiplications
    cost more. Here, one draw of 64 bits serves four entries with 16 bits each. So p is rounded to a multiple of 2⁻¹⁶,
    and the division is by 1 minus the rounded p. NumPy's fastest generator draws the bits; PyTorch's generator seeds
    it in every call, so that PyTorch's random state determines all results.
    """
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(like.new_ones(shape), p)
    threshold = round(p * LEVELS)
    if threshold == LEVELS:
        return like.new_zeros(shape)
    size = math.prod(shape)
    draws = torch.from_numpy(np.random.SFC64(int(torch.randint(2**63 - 1, ()))).random_raw((size + 3) // 4))
    kept = draws.view(torch.int16)[:size].view(shape) >= threshold - LEVELS // 2
    return kept.to(like.dtype).mul_(LEVELS / (LEVELS - threshold))


class Dropout(nn.Module):
    """``dropout`` as a layer (Srivastava et al. 2014)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ConfigError(f"dropout={p} is invalid: it must be between 0 and 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)

    def sample_step_masks(self, shape: Sequence[int], like: Tensor) -> Sequence[Tensor] | None:
        """Dropout masks for T steps of a loop, drawn at once: a shape B T X gives T masks B X; None if inactive."""
        return dropout_mask(shape, self.p, like).unbind(1) if self.training and self.p > 0 else None

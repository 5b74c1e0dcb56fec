"""Dropout that a CPU can afford."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.errors import OptionError

STEPS = 2**16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x with each entry zero with probability p and otherwise divided by 1 − p, so that its mean stays."""
    if not training or p == 0:
        return x
    return x * noise(x.shape, p, x)


def noise(shape: Sequence[int], p: float, like: Tensor) -> Tensor:
    """What dropout multiplies with: 0 with probability p, else 1 / (1 − p).

    On a CPU, PyTorch's own draws one random number per entry, and in a Transformer that costs more than anything but
    the matrix products. Here one draw of 64 bits decides over four entries, of 16 bits each; p is thereby rounded to
    a multiple of 2⁻¹⁶, and the division is by the rounded 1 − p. The draws are those of NumPy's fastest generator,
    seeded by PyTorch's at every call, so that PyTorch's state is the whole state.
    """
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(like.new_ones(shape), p)
    dropped = round(p * STEPS)
    if dropped == STEPS:
        return like.new_zeros(shape)
    size = math.prod(shape)
    draws = torch.from_numpy(np.random.SFC64(int(torch.randint(2**63 - 1, ()))).random_raw((size + 3) // 4))
    kept = draws.view(torch.int16)[:size].view(shape) >= dropped - STEPS // 2
    return kept.to(like.dtype).mul_(STEPS / (STEPS - dropped))


class Dropout(nn.Module):
    """``dropout`` as a layer (Srivastava et al. 2014)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise OptionError(f"dropout={p} must lie between 0 and 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)

    def over_steps(self, shape: Sequence[int], like: Tensor) -> Sequence[Tensor] | None:
        """What each step of a loop is to be multiplied with, drawn at once: B T X → T times B X; None: nothing."""
        return noise(shape, self.p, like).unbind(1) if self.training and self.p > 0 else None

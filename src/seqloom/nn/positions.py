"""Positional encodings, for models that otherwise ignore the order of steps."""

import math

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from seqloom.errors import ShapeError
from seqloom.registry import register


def sinusoids(position: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """p[2i] = sin(position / 10000^(2i/size)), p[2i+1] = cos(position / 10000^(2i/size)): … → … size."""
    exact = torch.promote_types(
        dtype, torch.float32
    )  # in half precision, the angles of large positions would be noise
    pair = torch.arange(0, size, 2, device=position.device, dtype=exact)
    angle = position[..., None] * torch.exp(pair * (-math.log(10000.0) / size))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2).to(dtype)


def check_pairs(size: int) -> None:
    """Raise an error if the size of a sinusoidal encoding is odd."""
    if size % 2:
        raise ShapeError(
            f"a sinusoidal positional encoding needs an even size (pairs of sine and cosine), but {size} is odd"
        )


class PositionalEncoding(nn.Module):
    """Adds a vector that encodes its position to every step.

    size: H, the size of the steps.
    max_positions: the maximum sequence length; None: unlimited.
    """

    max_positions: int | None = None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        """x with positional encodings added; the first step of x is at position ``start``."""
        raise NotImplementedError


@register("positional_encoding", "sinusoidal")
class Sinusoidal(PositionalEncoding):
    """Sinusoidal positional encoding: fixed sines and cosines, for sequences of any length.

        p[t, 2i] = sin(t / 10000^(2i/d))        p[t, 2i+1] = cos(t / 10000^(2i/d))

    Vaswani et al. 2017.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        check_pairs(size)

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        position_T = torch.arange(start, start + x_BTH.shape[1], device=x_BTH.device)
        return x_BTH + sinusoids(position_T, self.size, x_BTH.dtype)


@register("positional_encoding", "learned")
class Learned(PositionalEncoding):
    """Learned positional embeddings: one vector per position, up to a maximum length.

    Gehring et al. 2017.

    max_positions: maximum sequence length in tokens (in a decoder, including BOS); longer sequences are an error.
    """

    def __init__(self, size: int, *, max_positions: PositiveInt = 512) -> None:
        super().__init__(size)
        self.max_positions = max_positions
        self.table = nn.Parameter(torch.randn(max_positions, size) * 0.02)

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        end = start + x_BTH.shape[1]
        if end > len(self.table):
            raise ShapeError(
                f"positional_encoding 'learned' supports at most {len(self.table)} steps (max_positions), but this "
                f"sequence has {end}: increase max_positions, or use positional_encoding 'sinusoidal'"
            )
        return x_BTH + self.table[start:end]


@register("positional_encoding", "none")
class NoPositions(PositionalEncoding):
    """No positional encoding, as a baseline: the model ignores the order of the steps."""

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        return x_BTH

"""Where a step stands in its sequence: for models that would not know."""

import math

import torch
from torch import Tensor, nn

from seqloom.errors import SizeError
from seqloom.registry import Count, register


def sinusoids(position: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """p[2i] = sin(position / 10000^(2i/size)), p[2i+1] = cos(the same): … → … size."""
    exact = torch.promote_types(dtype, torch.float32)  # in half precision, large positions would be noise
    pair = torch.arange(0, size, 2, device=position.device, dtype=exact)
    angle = position[..., None] * torch.exp(pair * (-math.log(10000.0) / size))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2).to(dtype)


def check_pairs(size: int) -> None:
    """Refuse an odd number of sinusoids."""
    if size % 2:
        raise SizeError(f"sinusoids come in pairs of sine and cosine: a size of {size} is odd")


class Positions(nn.Module):
    """Adds to every step a vector that tells its position; size: that of the steps.

    longest: how many positions there are; None: any number.
    """

    longest: int | None = None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        """The steps of ``x``, the first of them at position ``start``, with their positions."""
        raise NotImplementedError


@register("positions", "sinusoidal")
class Sinusoidal(Positions):
    """Fixed sines and cosines, of any length.

        p[t, 2i] = sin(t / 10000^(2i/d))        p[t, 2i+1] = cos(t / 10000^(2i/d))

    Vaswani et al. 2017.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        check_pairs(size)

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        position_T = torch.arange(start, start + x_BTH.shape[1], device=x_BTH.device)
        return x_BTH + sinusoids(position_T, self.size, x_BTH.dtype)


@register("positions", "learned")
class Learned(Positions):
    """One learned vector per position, up to a greatest length.

    Gehring et al. 2017.

    longest: how many positions there are; a longer sequence is refused.
    """

    def __init__(self, size: int, *, longest: Count = 512) -> None:
        super().__init__(size)
        self.longest = longest
        self.table = nn.Parameter(torch.randn(longest, size) * 0.02)

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        end = start + x_BTH.shape[1]
        if end > len(self.table):
            raise SizeError(
                f"learned positions end at {len(self.table)}, and this sequence has {end} steps: "
                "set positions: {name: learned, longest: …}, or use sinusoidal ones"
            )
        return x_BTH + self.table[start:end]


@register("positions", "none")
class Unplaced(Positions):
    """No positions: the order of the steps stays unknown, as a baseline."""

    def forward(self, x_BTH: Tensor, start: int = 0) -> Tensor:
        return x_BTH

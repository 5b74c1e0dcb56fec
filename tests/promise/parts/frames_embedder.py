"""Frames, two at a time, as in speech recognition (Chan et al. 2016)."""

from torch import nn
from torch.nn import functional as F

from seqloom import register
from seqloom.batch import Padded
from seqloom.nn.embedders import Embedder
from seqloom.registry import Count


@register("embedder", "outside_frames")
class OutsideFrames(Embedder):
    """e_n = W [x_2n; x_2n+1] + b: half as many steps; past the end, a frame is zero.

    size: of the result.
    """

    def __init__(self, numbers, *, size: Count = 256):
        super().__init__()
        self.output_size = size
        self.linear = nn.Linear(2 * numbers, size)

    def forward(self, given):
        odd = given.mask.shape[1] % 2
        values = F.pad(given.values.masked_fill(~given.mask[..., None], 0), (0, 0, 0, odd))
        mask = F.pad(given.mask, (0, odd))
        return Padded(self.linear(values.unflatten(1, (-1, 2)).flatten(2)), mask[:, ::2])

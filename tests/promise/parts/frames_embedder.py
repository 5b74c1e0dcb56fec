"""Pairs of frames, as in speech recognition (Chan et al. 2016)."""

from pydantic import PositiveInt
from torch import nn
from torch.nn import functional as F

from seqloom import register
from seqloom.batch import Padded
from seqloom.nn.embedders import Embedder


@register("embedder", "outside_frames")
class OutsideFrames(Embedder):
    """e_n = W [x_2n; x_2n+1] + b: half as many steps; an odd last frame is paired with zeros.

    embedding_size: output size.
    """

    def __init__(self, numbers, *, embedding_size: PositiveInt = 256):
        super().__init__()
        self.output_size = embedding_size
        self.linear = nn.Linear(2 * numbers, embedding_size)

    def forward(self, given):
        odd = given.mask.shape[1] % 2
        values = F.pad(given.values.masked_fill(~given.mask[..., None], 0), (0, 0, 0, odd))
        mask = F.pad(given.mask, (0, odd))
        return Padded(self.linear(values.unflatten(1, (-1, 2)).flatten(2)), mask[:, ::2])

"""A vocabulary as vectors, and what training does to them."""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.batch import END, PAD, UNKNOWN
from seqloom.errors import OptionError, SizeError
from seqloom.nn.dropout import Dropout

Deviation = Annotated[float, Field(ge=0)]
"""A standard deviation."""


class Embedding(nn.Embedding):
    """A table with one learned row per symbol of a vocabulary, at first with a variance of 1/size.

    PAD's is zero, and as an embedding does not learn; where an output is tied to this table, its softmax moves it.
    """

    def __init__(self, vocabulary: int, size: int) -> None:
        if vocabulary <= UNKNOWN:
            raise SizeError(f"a vocabulary of {vocabulary} symbols has no room for PAD, START, END and UNKNOWN")
        super().__init__(vocabulary, size, padding_idx=PAD)
        with torch.no_grad():
            self.weight.normal_(std=size**-0.5)
            self.weight[PAD] = 0

    def forward(self, ids: Tensor) -> Tensor:
        try:
            return super().forward(ids)
        except IndexError:
            raise outside_vocabulary(ids, self.num_embeddings) from None


class Embedded(nn.Module):
    """Ids to embeddings; in training, with some of them hidden or blurred, so that a model does not rely on each.

        e = scale · W[id]

    The scale gives e the standard deviation that suits its reader, while W keeps 1/√size, which suits the logits
    where W is tied to them. It also makes e move faster: Adam's steps, of one size for all weights, move e ``scale``
    times as far as W.

    The table is given with every call, since two sides that share one may read it each in its own way.

    dropout: the share of an embedding's entries that are zero.
    noise: the standard deviation of Gaussian noise on every entry.
    word_dropout: the share of tokens that are replaced by UNKNOWN (Bowman et al. 2016); never PAD, START or END.
    """

    def __init__(self, *, dropout: float = 0.0, noise: float = 0.0, word_dropout: float = 0.0) -> None:
        super().__init__()
        if not noise >= 0:
            raise OptionError(f"noise={noise} must be at least 0: it is a standard deviation")
        if not 0 <= word_dropout <= 1:
            raise OptionError(f"word_dropout={word_dropout} must lie between 0 and 1")
        self.dropout = Dropout(dropout)
        self.noise = noise
        self.word_dropout = word_dropout
        self.scale = 1.0

    def begin_with(self, deviation: float, size: int) -> None:
        """Have embeddings of a size begin with a standard deviation."""
        self.scale = deviation * math.sqrt(size)

    def forward(self, ids: Tensor, embedding: Embedding) -> Tensor:
        if self.training and self.word_dropout > 0:
            hidden = torch.rand(ids.shape, device=ids.device) < self.word_dropout
            ids = ids.masked_fill(hidden & (ids > END), UNKNOWN)
        e: Tensor = embedding(ids) * self.scale
        if self.training and self.noise > 0:
            e = e + self.noise * torch.randn_like(e)
        return self.dropout(e)  # type: ignore[no-any-return]


def outside_vocabulary(ids: Tensor, vocabulary: int) -> SizeError:
    """The error for ids that a vocabulary does not have."""
    return SizeError(
        f"ids run from {int(ids.min())} to {int(ids.max())}, but the vocabulary from 0 to {vocabulary - 1}"
    )

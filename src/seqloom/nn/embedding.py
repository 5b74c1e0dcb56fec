"""A vocabulary as vectors."""

import torch
from torch import Tensor, nn

from seqloom.batch import PAD
from seqloom.errors import SizeError


class Embedding(nn.Embedding):
    """One learned vector per symbol of a vocabulary, with a variance of 1/size; PAD's is zero and does not learn."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__(vocabulary, size, padding_idx=PAD)
        with torch.no_grad():
            self.weight.normal_(std=size**-0.5)
            self.weight[PAD] = 0

    def forward(self, ids: Tensor) -> Tensor:
        try:
            return super().forward(ids)
        except IndexError:
            raise outside_vocabulary(ids, self.num_embeddings) from None


def outside_vocabulary(ids: Tensor, vocabulary: int) -> SizeError:
    """The error for ids that a vocabulary does not have."""
    return SizeError(
        f"ids run from {int(ids.min())} to {int(ids.max())}, but the vocabulary from 0 to {vocabulary - 1}"
    )

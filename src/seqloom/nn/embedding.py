"""Embedding tables, and token embeddings with the regularization of training."""

import math

import torch
from torch import Tensor, nn

from seqloom.batch import EOS, PAD, UNK
from seqloom.errors import ConfigError, ShapeError
from seqloom.nn.dropout import Dropout


class Embedding(nn.Embedding):
    """An embedding table: one learned vector per vocabulary entry, initialized with variance 1/size.

    The row of PAD is zero and gets no gradient from lookups; with weight tying, it gets one from the softmax.
    """

    def __init__(self, vocabulary: int, size: int) -> None:
        if vocabulary <= UNK:
            raise ShapeError(
                f"vocabulary size {vocabulary} is too small: PAD, BOS, EOS and UNK alone need {UNK + 1} entries"
            )
        super().__init__(vocabulary, size, padding_idx=PAD)
        with torch.no_grad():
            self.weight.normal_(std=size**-0.5)
            self.weight[PAD] = 0

    def forward(self, ids: Tensor) -> Tensor:
        try:
            return super().forward(ids)
        except IndexError:
            raise ids_out_of_range(ids, self.num_embeddings) from None


class TokenEmbedding(nn.Module):
    """Looks up embeddings; in training, with word dropout, Gaussian noise and dropout.

        e = scale · W[id]

    The scale gives e the standard deviation that suits the module that reads it, while W keeps 1/√size, which suits
    the logits if W is tied to the output layer. It also makes e learn faster: Adam changes all weights at the same
    rate, so e changes ``scale`` times as much as W.

    The table is an argument of every call, because source and target may share a table but use different options.

    dropout: dropout probability of embedding entries.
    embedding_noise: standard deviation of Gaussian noise added to every entry.
    word_dropout: probability of replacing a token by UNK (Bowman et al. 2016); never PAD, BOS or EOS.
    """

    def __init__(self, *, dropout: float = 0.0, embedding_noise: float = 0.0, word_dropout: float = 0.0) -> None:
        super().__init__()
        if not embedding_noise >= 0:
            raise ConfigError(
                f"embedding_noise={embedding_noise} is invalid: a standard deviation must be at least 0"
            )
        if not 0 <= word_dropout <= 1:
            raise ConfigError(f"word_dropout={word_dropout} is invalid: it must be between 0 and 1")
        self.dropout = Dropout(dropout)
        self.embedding_noise = embedding_noise
        self.word_dropout = word_dropout
        self.scale = 1.0

    def set_init_std(self, std: float, size: int) -> None:
        """Set the scale so that embeddings of a given size are initialized with a standard deviation."""
        self.scale = std * math.sqrt(size)

    def forward(self, ids: Tensor, embedding: Embedding) -> Tensor:
        if self.training and self.word_dropout > 0:
            dropped = torch.rand(ids.shape, device=ids.device) < self.word_dropout
            ids = ids.masked_fill(dropped & (ids > EOS), UNK)
        e: Tensor = embedding(ids) * self.scale
        if self.training and self.embedding_noise > 0:
            e = e + self.embedding_noise * torch.randn_like(e)
        return self.dropout(e)  # type: ignore[no-any-return]


def ids_out_of_range(ids: Tensor, vocabulary: int) -> ShapeError:
    """The error for token ids outside the vocabulary."""
    return ShapeError(
        f"token ids range from {int(ids.min())} to {int(ids.max())}, but the vocabulary has ids 0 to {vocabulary - 1}"
    )

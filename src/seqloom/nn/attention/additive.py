"""A small perceptron on query and key."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.attention.base import Score
from seqloom.registry import Count, register


@register("score", "additive")
class Additive(Score):
    """A perceptron with one hidden layer on query and key, of any two sizes.

        score(q, k) = vᵀ tanh(W [q; k] + b) = vᵀ tanh(W_q q + W_k k + b)

    Bahdanau et al. 2015. W_k k is computed once per source. The output has no bias: it would raise all scores
    alike, and the softmax does not see that.

    size: width of the hidden layer; by default the query's.
    """

    def __init__(self, query_size: int, key_size: int, *, size: Count | None = None) -> None:
        super().__init__(query_size, key_size)
        size = size or query_size
        self.query = nn.Linear(query_size, size)
        self.key = nn.Linear(key_size, size, bias=False)
        bound = (6.0 / (query_size + key_size + size)) ** 0.5  # Glorot for W as the one matrix that it is
        nn.init.uniform_(self.query.weight, -bound, bound)
        nn.init.uniform_(self.key.weight, -bound, bound)
        nn.init.zeros_(self.query.bias)
        self.v = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return self.key(keys_BSD)  # type: ignore[no-any-return]

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        hidden_BTSD = self.query(query_BTD)[:, :, None] + prepared_BSD[:, None]
        return F.linear(hidden_BTSD.tanh_(), self.v)  # in place: it is by far the largest tensor here

"""Additive (Bahdanau) attention."""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.attention.base import ScoreFunction
from seqloom.registry import register


@register("score", "additive")
class Additive(ScoreFunction):
    """Additive attention score function: a perceptron with one hidden layer; queries and keys may differ in size.

        score(q, k) = vᵀ tanh(W [q; k] + b) = vᵀ tanh(W_q q + W_k k + b)

    Bahdanau et al. 2015. W_k k is computed once per source. The output has no bias, because softmax is invariant to
    adding a constant to all scores.

    Shapes: queries B × T × D_q, keys B × S × D_k, scores B × T × S.

    hidden_size: size of the hidden layer; by default the query size.
    """

    def __init__(self, query_size: int, key_size: int, *, hidden_size: PositiveInt | None = None) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size or query_size
        self.query = nn.Linear(query_size, hidden_size)
        self.key = nn.Linear(key_size, hidden_size, bias=False)
        bound = (6.0 / (query_size + key_size + hidden_size)) ** 0.5  # Glorot initialization of W as one matrix
        nn.init.uniform_(self.query.weight, -bound, bound)
        nn.init.uniform_(self.key.weight, -bound, bound)
        nn.init.zeros_(self.query.bias)
        self.v = nn.Parameter(torch.empty(hidden_size).uniform_(-(hidden_size**-0.5), hidden_size**-0.5))

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return self.key(keys_BSD)  # type: ignore[no-any-return]

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        hidden_BTSD = self.query(query_BTD)[:, :, None] + projected_BSD[:, None]
        return F.linear(hidden_BTSD.tanh_(), self.v)  # in place: this is by far the largest tensor

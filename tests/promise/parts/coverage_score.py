"""Coverage attention: scores depend on the attention that each source token has received (See et al. 2017)."""

import torch
from torch import nn

from seqloom import register
from seqloom.nn.attention import ScoreFunction


@register("score", "outside_coverage")
class OutsideCoverage(ScoreFunction):
    """score(q, k_s) = vᵀ tanh(W_q q + W_k k_s + w c_s + b), where c_s is the sum of the previous weights on s."""

    stateful = True

    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        self.query, self.key = nn.Linear(query_size, query_size), nn.Linear(key_size, query_size, bias=False)
        self.w, self.v = (nn.Parameter(torch.randn(query_size) / query_size**0.5) for _ in range(2))

    def project_keys(self, keys_BSD):
        return self.key(keys_BSD)

    def forward(self, query_BTD, projected_BSD, position_BT=None, state_BTS=None):
        hidden_BTSD = self.query(query_BTD)[:, :, None] + projected_BSD[:, None]
        if state_BTS is not None:
            hidden_BTSD = hidden_BTSD + state_BTS[..., None] * self.w
        return torch.tanh(hidden_BTSD) @ self.v

    def update_state(self, state_BTS, weights_BTS):
        return state_BTS + weights_BTS

"""A mixture of softmaxes (Yang et al. 2018)."""

import torch
from torch import nn

from seqloom import register
from seqloom.nn.outputs import Loss
from seqloom.nn.outputs.tokens import TokenOutput


@register("output", "outside_softmaxes")
class OutsideSoftmaxes(TokenOutput):
    """p_t = Σ_k π_k softmax(W tanh(U_k f_t) + b),  π = softmax(V f_t), with two components."""

    def set_feature_size(self, feature_size, embedding_init_std):
        super().set_feature_size(feature_size, embedding_init_std)
        self.prior = nn.Linear(feature_size, 2)
        self.latent = nn.Linear(feature_size, 2 * feature_size)

    def log_probs(self, decoded, memory):
        log_pi = torch.log_softmax(self.prior(decoded.features), -1)
        latent = torch.tanh(self.latent(decoded.features)).unflatten(-1, (2, -1))
        return torch.logsumexp(log_pi[..., None] + torch.log_softmax(self.logits(latent), -1), -2)

    def loss(self, decoded, memory, target):
        picked = self.log_probs(decoded, memory).gather(2, target.values[..., None])[..., 0]
        total = -picked[target.mask].sum()
        return Loss(total, target.mask.sum(), total.detach())

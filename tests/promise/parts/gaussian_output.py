"""A Gaussian output for vectors."""

import math

import torch
from torch import nn

from seqloom import register
from seqloom.nn.outputs import Loss, Output


@register("output", "outside_gaussian")
class OutsideGaussian(Output):
    """p_t(y) = N(y; μ, σ² I),  μ, log σ = W f_t + b."""

    def __init__(self, numbers):
        super().__init__()
        self.input_size = self.numbers = numbers

    def set_feature_size(self, feature_size, embedding_init_std):
        self.linear = nn.Linear(feature_size, self.numbers + 1)

    def start(self, memory):
        return self.linear.weight.new_zeros(memory.rows, self.numbers)

    def feed(self, value):
        return value

    def loss(self, decoded, memory, target):
        mu, log_sigma = self.linear(decoded.features).split((self.numbers, 1), -1)
        log_p = -0.5 * ((target.values - mu) / log_sigma.exp()).square() - log_sigma - 0.5 * math.log(2 * math.pi)
        total = -log_p[target.mask].sum()
        return Loss(total, target.mask.sum(), total.detach())

    def sample(self, decoded, memory, *, temperature=1.0, generator=None):
        mu, log_sigma = self.linear(decoded.features).split((self.numbers, 1), -1)
        return mu + temperature * log_sigma.exp() * torch.empty_like(mu).normal_(generator=generator)

"""A mixture density output for real values (Bishop 1994), and a linear embedder for vectors."""

import math

import torch
from pydantic import PositiveInt
from torch import nn
from torch.nn import functional as F

from seqloom import register
from seqloom.batch import Padded
from seqloom.nn.embedders import Embedder
from seqloom.nn.outputs import Loss, Output


@register("embedder", "linear")
class Linear(Embedder):
    """A linear map of vectors.

    embedding_size: output size.
    """

    def __init__(self, numbers, *, embedding_size: PositiveInt = 256):
        super().__init__()
        self.output_size = embedding_size
        self.linear = nn.Linear(numbers, embedding_size)

    def forward(self, given):
        return Padded(self.linear(given.values), given.mask)


@register("output", "mixture_density")
class MixtureDensity(Output):
    """Mixture density network: a mixture of isotropic Gaussians, trained by maximum likelihood.

        p_t(y) = Σ_k π_k N(y; μ_k, σ_k² I),        π, μ, log σ = W f_t + b

    components: number of mixture components.
    """

    def __init__(self, numbers, *, components: PositiveInt = 3):
        super().__init__()
        self.input_size = self.numbers = numbers
        self.components = components

    def set_feature_size(self, feature_size, embedding_init_std):
        self.linear = nn.Linear(feature_size, self.components * (self.numbers + 2))

    def parameters_of(self, features):
        """log π, μ and log σ."""
        K = self.components
        pi, log_sigma, mu = self.linear(features).split((K, K, K * self.numbers), -1)
        return torch.log_softmax(pi, -1), mu.unflatten(-1, (K, self.numbers)), log_sigma

    def start(self, memory):
        return self.linear.weight.new_zeros(memory.rows, self.numbers)

    def feed(self, value):
        return value

    def loss(self, decoded, memory, target):
        log_pi, mu, log_sigma = self.parameters_of(decoded.features)
        squared = ((target.values[..., None, :] - mu) / log_sigma.exp()[..., None]).square().sum(-1)
        normal = -0.5 * squared - self.numbers * (log_sigma + 0.5 * math.log(2 * math.pi))
        total = -torch.logsumexp(log_pi + normal, -1)[target.mask].sum()
        return Loss(total, target.mask.sum(), total.detach())

    def sample(self, decoded, memory, *, temperature=1.0, generator=None):
        """At temperature 0, return the mean of the component with the highest density at its own mean."""
        log_pi, mu, log_sigma = self.parameters_of(decoded.features)
        if temperature == 0:
            k = (log_pi - self.numbers * log_sigma).argmax(-1)
        else:
            k = torch.multinomial(F.softmax(log_pi / temperature, -1), 1, generator=generator)[:, 0]
        rows = torch.arange(len(k), device=k.device)
        noise = torch.empty_like(mu[rows, k]).normal_(generator=generator)
        return mu[rows, k] + temperature * log_sigma[rows, k].exp()[:, None] * noise

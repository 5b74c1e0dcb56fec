"""Attention by squared distance."""

import math

import torch
from torch import Tensor, nn

from seqloom.errors import ConfigError
from seqloom.nn.attention.base import ScoreFunction
from seqloom.registry import register


@register("score", "rbf")
class RBF(ScoreFunction):
    """Radial basis function (RBF) attention score function: the negative squared distance between query and key.

        score(q, k) = −γ ‖q − k‖²

    With softmax this is kernel regression with a Gaussian kernel (Nadaraya 1964, Watson 1964). For unit vectors it is
    the dot product times 2γ, up to a constant to which softmax is invariant, since
    −γ ‖q − k‖² = 2γ q·k − γ ‖q‖² − γ ‖k‖².

    Shapes: queries B × T × D, keys B × S × D, scores B × T × S.

    gamma: kernel coefficient γ > 0 (the initial value if it is learned); by default 1 / (2√d), which for unit vectors
        equals the scaled dot product.
    learned: learn γ, as its logarithm, so that it stays positive; false keeps it fixed.
    """

    def __init__(self, query_size: int, key_size: int, *, gamma: float | None = None, learned: bool = True) -> None:
        super().__init__(query_size, key_size)
        d = self.require_one_size("rbf")
        gamma = 0.5 / d**0.5 if gamma is None else gamma
        if not gamma > 0:
            raise ConfigError(f"score 'rbf': gamma={gamma} is invalid: it must be above 0")
        log_gamma = torch.tensor(math.log(gamma))
        if learned:
            self.log_gamma = nn.Parameter(log_gamma)
        else:
            self.register_buffer("log_gamma", log_gamma)

    def score(self, query_BTD: Tensor, projected_BSD: Tensor) -> Tensor:
        # Not computed by a matrix multiplication, so that the distance of equal vectors is exactly 0.
        distance_BTS = torch.cdist(query_BTD, projected_BSD, compute_mode="donot_use_mm_for_euclid_dist")
        return -self.log_gamma.exp() * distance_BTS**2

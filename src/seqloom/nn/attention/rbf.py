"""Nearness as a score."""

import math

import torch
from torch import Tensor, nn

from seqloom.errors import OptionError
from seqloom.nn.attention.base import Score
from seqloom.registry import register


@register("score", "rbf")
class RBF(Score):
    """Nearness: minus the squared distance, which a softmax turns into Gaussian kernels (radial basis functions).

        score(q, k) = −γ ‖q − k‖²

    As −γ ‖q − k‖² = 2γ q·k − γ ‖q‖² − γ ‖k‖², for q and k of length one it is the dot product times 2γ, up to a
    constant that a softmax does not see. The memory table with Gaussian look-up: Nadaraya 1964, Watson 1964.

    gamma: γ > 0; by default 1 / (2√d), which for unit vectors is the scaled dot product.
    learned: learn γ (as its logarithm, so it stays positive) or keep it.
    """

    def __init__(self, query_size: int, key_size: int, *, gamma: float | None = None, learned: bool = True) -> None:
        super().__init__(query_size, key_size)
        d = self.require_one_size("rbf")
        gamma = 0.5 / d**0.5 if gamma is None else gamma
        if not gamma > 0:
            raise OptionError(f"score 'rbf': gamma={gamma} must be above 0, or the nearest would count least")
        log_gamma = torch.tensor(math.log(gamma))
        if learned:
            self.log_gamma = nn.Parameter(log_gamma)
        else:
            self.register_buffer("log_gamma", log_gamma)

    def score(self, query_BTD: Tensor, prepared_BSD: Tensor) -> Tensor:
        # Without the detour over a matrix product, so that the distance of equals is exactly 0.
        distance_BTS = torch.cdist(query_BTD, prepared_BSD, compute_mode="donot_use_mm_for_euclid_dist")
        return -self.log_gamma.exp() * distance_BTS**2

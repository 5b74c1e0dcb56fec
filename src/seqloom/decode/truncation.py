"""Ways to draw only from some of the tokens: each takes probabilities, … V, and gives 0 to what is left out.

What is left need not add up to 1. Tokens that are equal to the last one in stay in as well.
"""

import torch
from torch import Tensor


def top_k(probs: Tensor, k: int) -> Tensor:
    """The k likeliest (Fan et al. 2018)."""
    return probs * (probs >= probs.topk(min(k, probs.shape[-1])).values[..., -1:])


def top_p(probs: Tensor, mass: float) -> Tensor:
    """The fewest likeliest that have this share of all probability together (Holtzman et al. 2020)."""
    return _fewest(probs, -probs, mass)


def typical_p(probs: Tensor, mass: float) -> Tensor:
    """The fewest with this share together whose information is nearest to what is expected (Meister et al. 2023).

    With H = −Σ_v q_v log q_v the entropy, first those with the least |−log q_v − H|.
    """
    probs = probs / probs.sum(-1, keepdim=True)
    entropy = torch.special.entr(probs).sum(-1, keepdim=True)
    return _fewest(probs, (probs.log() + entropy).abs(), mass)


def min_p(probs: Tensor, share: float) -> Tensor:
    """Those at least this share as likely as the likeliest (Nguyen et al. 2025)."""
    return probs * (probs >= share * probs.amax(-1, keepdim=True))


def _fewest(probs: Tensor, strangeness: Tensor, mass: float) -> Tensor:
    """The least strange tokens, as many as it takes to have this share of the probability."""
    strange, order = strangeness.sort()
    in_order = probs.gather(-1, order)
    before = in_order.cumsum(-1) - in_order
    enough = before >= mass * in_order.sum(-1, keepdim=True)
    enough[..., 0] = False  # the first is always in, even where rounding says that nothing is needed
    return probs * (strangeness <= strange.masked_fill(enough, -torch.inf).amax(-1, keepdim=True))

"""Clipping: a gradient that is too long is shortened, and keeps its direction."""

from collections.abc import Iterable

from torch import Tensor, nn


def clip(parameters: Iterable[nn.Parameter], longest: float) -> Tensor:
    """Shorten the gradient of all parameters together to ``longest``; returns how long it was (Pascanu et al. 2013).

    PyTorch's own always multiplies; here a gradient that is short enough is not touched.
    """
    learning = [p for p in parameters if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in learning if p.grad is not None])
    if norm > longest:
        nn.utils.clip_grads_with_norm_(learning, longest, norm)
    return norm

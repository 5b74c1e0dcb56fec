"""Gradient clipping."""

from collections.abc import Iterable

from torch import Tensor, nn


def clip_grad_norm(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Clip the total norm of all gradients to ``max_norm`` and return the norm before clipping (Pascanu et al. 2013).

    PyTorch's function always multiplies the gradients; this one leaves them unchanged if the norm is small enough.
    """
    parameters = [p for p in parameters if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if norm > max_norm:
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm

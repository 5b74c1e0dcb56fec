"""Fused linear layer and cross-entropy, which never stores all logits at once.

With a vocabulary of thousands, the logits are by far the largest tensor of a training step, and a standard loss
stores it four times: logits, log-probabilities, and the gradient of each. Here one chunk of rows at a time is
processed, from the logits to the loss and to the gradients, in one buffer that stays in the cache:

    z = W x + b        loss = −Σ_v q_v log softmax(z)_v        ∂loss/∂z = softmax(z) − q

with q = (1 − ε) onehot(y) + ε/V. ∂loss/∂z is known as soon as the loss is, so the forward pass accumulates ∂x, ∂W
and ∂b, and the backward pass only scales them.
"""

from typing import Any

import torch
from torch import Tensor

CHUNK = 2**22
"""Number of logits per chunk: 16 MB of float32. Smaller chunks mean more additions to the weight gradient."""


def linear_cross_entropy(
    x_XH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_X: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of softmax(W x + b), summed over rows: with the smoothed target, and with the target itself.

    Only the first has a gradient.
    """
    apply: Any = _LinearCrossEntropy.apply
    x_XH = x_XH.to(weight_VH.dtype)
    losses: tuple[Tensor, Tensor] = apply(x_XH, weight_VH, bias_V, target_X, label_smoothing, torch.is_grad_enabled())
    return losses


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_XH: Tensor, W: Tensor, b: Tensor, y_X: Tensor, epsilon: float, with_grad: bool
    ) -> tuple[Tensor, Tensor]:
        V = len(W)
        rows = max(1, CHUNK // V)
        nll = x_XH.new_zeros((), dtype=torch.promote_types(x_XH.dtype, torch.float32))
        uniform = torch.zeros_like(nll)
        buffer = x_XH.new_empty(min(rows, len(x_XH)), V)
        needed = [with_grad and need for need in ctx.needs_input_grad[:3]]
        dx, dW, db = (torch.zeros_like(t) if need else None for t, need in zip((x_XH, W, b), needed, strict=True))
        for start in range(0, len(x_XH), rows):
            x, y = x_XH[start : start + rows], y_X[start : start + rows, None]
            z = torch.addmm(b, x, W.t(), out=buffer[: len(x)])
            log_p = torch.log_softmax(z, 1, out=z)
            nll -= log_p.gather(1, y).sum(dtype=nll.dtype)
            if epsilon:
                uniform -= log_p.sum(dtype=nll.dtype) / V
            if not any(needed):
                continue
            dz = log_p.exp_()
            if epsilon:
                dz -= epsilon / V
            dz.scatter_add_(1, y, dz.new_full(y.shape, epsilon - 1))
            if dx is not None:
                torch.mm(dz, W, out=dx[start : start + rows])
            if dW is not None:
                dW.addmm_(dz.t(), x)
            if db is not None:
                db += dz.sum(0)
        ctx.save_for_backward(x_XH, W, b, y_X, dx, dW, db)
        ctx.epsilon = epsilon
        ctx.mark_non_differentiable(nll)
        return (1 - epsilon) * nll + epsilon * uniform, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, W, b, y, *grads = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are needed: use differentiable operations
            q = torch.full((len(x), len(W)), ctx.epsilon / len(W), dtype=x.dtype, device=x.device)
            q = q.scatter_add(1, y[:, None], q.new_full((len(x), 1), 1 - ctx.epsilon))
            dz = torch.softmax(torch.addmm(b, x, W.t()), 1) - q
            grads = [dz @ W, dz.t() @ x, dz.sum(0)]
        return *(None if d is None else d * grad.to(d.dtype) for d in grads), None, None, None

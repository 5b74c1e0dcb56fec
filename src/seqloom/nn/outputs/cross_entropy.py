"""Cross-entropy straight from features, without ever holding all logits.

For a vocabulary of thousands the logits are by far the largest tensor of a training step, and a plain loss makes it
four times: logits, log-probabilities, and a gradient of each. Here a chunk of rows at a time goes all the way, to the
loss and back to the gradients, in one buffer that stays in the cache:

    z = W x + b        loss = −Σ_v q_v log softmax(z)_v        ∂loss/∂z = softmax(z) − q

with q = (1 − ε) onehot(y) + ε/V. As ∂loss/∂z is known with the loss, ∂x, ∂W and ∂b are summed up on the way forward,
and the backward pass only scales them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 2**22
"""How many logits are held at a time: 16 MB of float32. Fewer mean more sums of the weight's gradient."""


def linear_cross_entropy(
    x_XH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_X: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Σ over rows of the cross-entropy between softmax(W x + b) and the (smoothed) target."""
    with_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (x_XH, weight_VH, bias_V))
    apply: Any = _LinearCrossEntropy.apply
    total: Tensor = apply(x_XH.to(weight_VH.dtype), weight_VH, bias_V, target_X, label_smoothing, with_grad)
    return total


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_XH: Tensor, W: Tensor, b: Tensor, y_X: Tensor, epsilon: float, with_grad: bool) -> Tensor:
        V = len(W)
        rows = max(1, CHUNK // V)
        total = x_XH.new_zeros(())
        buffer = x_XH.new_empty(min(rows, len(x_XH)), V)
        dx, dW, db = (torch.zeros_like(t) if with_grad else t for t in (x_XH, W, b))
        for start in range(0, len(x_XH), rows):
            x, y = x_XH[start : start + rows], y_X[start : start + rows, None]
            z = torch.addmm(b, x, W.t(), out=buffer[: len(x)])
            log_p = torch.log_softmax(z, 1, out=z)
            total -= (1 - epsilon) * log_p.gather(1, y).sum()
            if epsilon:
                total -= epsilon / V * log_p.sum()
            if with_grad:
                dz = log_p.exp_()
                if epsilon:
                    dz -= epsilon / V
                dz.scatter_add_(1, y, dz.new_full(y.shape, epsilon - 1))
                torch.mm(dz, W, out=dx[start : start + rows])
                dW.addmm_(dz.t(), x)
                db += dz.sum(0)
        if with_grad:
            ctx.save_for_backward(dx, dW, db)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dx, dW, db = ctx.saved_tensors
        return dx * grad, dW * grad, db * grad, None, None, None

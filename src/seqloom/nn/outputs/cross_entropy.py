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

CHUNK = 2**22
"""How many logits are held at a time: 16 MB of float32. Fewer mean more sums of the weight's gradient."""


def linear_cross_entropy(
    x_XH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_X: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Σ over rows of the cross-entropy between softmax(W x + b) and the smoothed target; and that of the plain one.

    Only the first has a gradient.
    """
    apply: Any = _LinearCrossEntropy.apply
    x_XH = x_XH.to(weight_VH.dtype)
    both: tuple[Tensor, Tensor] = apply(x_XH, weight_VH, bias_V, target_X, label_smoothing, torch.is_grad_enabled())
    return both


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_XH: Tensor, W: Tensor, b: Tensor, y_X: Tensor, epsilon: float, with_grad: bool
    ) -> tuple[Tensor, Tensor]:
        V = len(W)
        rows = max(1, CHUNK // V)
        plain = x_XH.new_zeros((), dtype=torch.promote_types(x_XH.dtype, torch.float32))
        even = torch.zeros_like(plain)
        buffer = x_XH.new_empty(min(rows, len(x_XH)), V)
        needed = [with_grad and need for need in ctx.needs_input_grad[:3]]
        dx, dW, db = (torch.zeros_like(t) if need else None for t, need in zip((x_XH, W, b), needed, strict=True))
        for start in range(0, len(x_XH), rows):
            x, y = x_XH[start : start + rows], y_X[start : start + rows, None]
            z = torch.addmm(b, x, W.t(), out=buffer[: len(x)])
            log_p = torch.log_softmax(z, 1, out=z)
            plain -= log_p.gather(1, y).sum(dtype=plain.dtype)
            if epsilon:
                even -= log_p.sum(dtype=plain.dtype) / V
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
        ctx.mark_non_differentiable(plain)
        return (1 - epsilon) * plain + epsilon * even, plain

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, W, b, y, *known = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: in plain operations that have one
            q = torch.full((len(x), len(W)), ctx.epsilon / len(W), dtype=x.dtype, device=x.device)
            q = q.scatter_add(1, y[:, None], q.new_full((len(x), 1), 1 - ctx.epsilon))
            dz = torch.softmax(torch.addmm(b, x, W.t()), 1) - q
            known = [dz @ W, dz.t() @ x, dz.sum(0)]
        return *(None if d is None else d * grad.to(d.dtype) for d in known), None, None, None

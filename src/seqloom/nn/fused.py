"""PyTorch's fused recurrences over a whole sequence, and, in an export to ONNX, those that ONNX has.

Each takes x, B S E, and the first state, and four weights in PyTorch's order of gates: W, U, b and a second bias.
ONNX writes the gates in another order, and time before the batch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Weights = Sequence[Tensor]


def lstm(x_BSE: Tensor, h_BH: Tensor, c_BH: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """h of every step and the last c; gates: input, forget, candidate, output."""
    if torch.onnx.is_in_onnx_export():
        h_BSH, (_, last_c) = _in_onnx("LSTM", x_BSE, (h_BH, c_BH), weights, order=(0, 3, 1, 2))
        return h_BSH, last_c
    start = (_first(h_BH), _first(c_BH))
    h_BSH, _, c_1BH = torch.lstm(x_BSE, start, list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)
    return h_BSH, c_1BH[0]


def gru(x_BSE: Tensor, h_BH: Tensor, weights: Weights) -> Tensor:
    """h of every step; gates: reset, update, candidate."""
    if torch.onnx.is_in_onnx_export():
        return _in_onnx("GRU", x_BSE, (h_BH,), weights, order=(1, 0, 2), linear_before_reset=1)[0]
    return torch.gru(x_BSE, _first(h_BH), list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def elman(x_BSE: Tensor, h_BH: Tensor, weights: Weights) -> Tensor:
    """h of every step, with tanh."""
    if torch.onnx.is_in_onnx_export():
        return _in_onnx("RNN", x_BSE, (h_BH,), weights, order=(0,))[0]
    return torch.rnn_tanh(x_BSE, _first(h_BH), list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def _first(state_BH: Tensor) -> Tensor:
    """The state of the one layer, 1 B H, in one piece: on a GPU nothing else is taken."""
    return state_BH.contiguous()[None]


def _in_onnx(
    name: str, x_BSE: Tensor, start: Sequence[Tensor], weights: Weights, *, order: Sequence[int], **attributes: int
) -> tuple[Tensor, list[Tensor]]:
    """An operator of ONNX: h of every step, and the last state."""
    B, S, _ = x_BSE.shape
    H = start[0].shape[1]

    def ordered(weight: Tensor) -> Tensor:
        return weight.view(len(order), H, *weight.shape[1:])[list(order)].flatten(0, 1)

    W, U, b, second = map(ordered, weights)
    inputs = [x_BSE.transpose(0, 1), W[None], U[None], torch.cat((b, second))[None], None, *(s[None] for s in start)]
    h_S1BH, *last = torch.onnx.ops.symbolic_multi_out(
        name,
        inputs,
        {"hidden_size": H, **attributes},
        dtypes=[x_BSE.dtype] * (1 + len(start)),
        shapes=[(S, 1, B, H), *([(1, B, H)] * len(start))],
        version=18,
    )
    return h_S1BH[:, 0].transpose(0, 1), [part[0] for part in last]

"""Fused RNN kernels over a whole sequence: those of PyTorch or, in an ONNX export, the ONNX operators.

Each takes x, B S E, the initial state, and four weights in PyTorch's gate order: W, U, b and a second bias. ONNX uses
another gate order, and time as the first dimension.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Weights = Sequence[Tensor]


def lstm(x_BSE: Tensor, h_BH: Tensor, c_BH: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Hidden states of all steps and the final c; gates: input, forget, candidate, output."""
    if torch.onnx.is_in_onnx_export():
        h_BSH, (_, final_c) = _onnx_operator("LSTM", x_BSE, (h_BH, c_BH), weights, order=(0, 3, 1, 2))
        return h_BSH, final_c
    initial = (_initial(h_BH), _initial(c_BH))
    h_BSH, _, c_1BH = torch.lstm(x_BSE, initial, list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)
    return h_BSH, c_1BH[0]


def gru(x_BSE: Tensor, h_BH: Tensor, weights: Weights) -> Tensor:
    """Hidden states of all steps; gates: reset, update, candidate."""
    if torch.onnx.is_in_onnx_export():
        return _onnx_operator("GRU", x_BSE, (h_BH,), weights, order=(1, 0, 2), linear_before_reset=1)[0]
    return torch.gru(x_BSE, _initial(h_BH), list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def elman(x_BSE: Tensor, h_BH: Tensor, weights: Weights) -> Tensor:
    """Hidden states of all steps, with tanh."""
    if torch.onnx.is_in_onnx_export():
        return _onnx_operator("RNN", x_BSE, (h_BH,), weights, order=(0,))[0]
    return torch.rnn_tanh(x_BSE, _initial(h_BH), list(weights), True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def _initial(state_BH: Tensor) -> Tensor:
    """The initial state of the only layer, 1 B H, contiguous as GPU kernels require."""
    return state_BH.contiguous()[None]


def _onnx_operator(
    name: str, x_BSE: Tensor, initial: Sequence[Tensor], weights: Weights, *, order: Sequence[int], **attributes: int
) -> tuple[Tensor, list[Tensor]]:
    """An ONNX operator: hidden states of all steps, and the final state."""
    B, S, _ = x_BSE.shape
    H = initial[0].shape[1]

    def reordered(weight: Tensor) -> Tensor:
        return weight.view(len(order), H, *weight.shape[1:])[list(order)].flatten(0, 1)

    W, U, b, second = map(reordered, weights)
    inputs = [
        x_BSE.transpose(0, 1),
        W[None],
        U[None],
        torch.cat((b, second))[None],
        None,
        *(s[None] for s in initial),
    ]
    h_S1BH, *final = torch.onnx.ops.symbolic_multi_out(
        name,
        inputs,
        {"hidden_size": H, **attributes},
        dtypes=[x_BSE.dtype] * (1 + len(initial)),
        shapes=[(S, 1, B, H), *([(1, B, H)] * len(initial))],
        version=18,
    )
    return h_S1BH[:, 0].transpose(0, 1), [part[0] for part in final]

"""Base class of recurrent cells: weights, initialization, and the interface to a fused kernel.

A cell has two parts. ``project`` is affine and has one weight matrix per input; the projections are summed,

    z_t = W_e e_t + b + W_c c_t,

so inputs that are known for all steps (embeddings) are projected by one matrix multiplication before the loop, and
inputs that become known step by step (a context vector, input feeding) are added inside the loop.
``forward(z, state) → (h, state)`` contains the recurrence and all nonlinearities, and reads like the published
equations.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqloom.nn.add import Add, add
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe


class Cell(nn.Module):
    """One time step of a recurrent network.

    inputs: the size of the input, or the sizes of several inputs.
    size: H, the size of the hidden state.
    blocks: names of the blocks of z (gates and candidate), each of size H, to which the input contributes.
    recurrent: the blocks to which h_{t−1} contributes through a matrix of U, if any.
    bare: number of blocks, at the end of ``blocks``, to which the input contributes without a matrix of W.
    """

    state_names: ClassVar[tuple[str, ...]] = ("h",)
    """Names of the tensors of the state; the first is the hidden state, which is the output."""

    def __init__(
        self, inputs: int | Sequence[int], size: int, blocks: Sequence[str], recurrent: Sequence[str], bare: int = 0
    ) -> None:
        super().__init__()
        self.input_sizes = (inputs,) if isinstance(inputs, int) else tuple(inputs)
        self.size = size
        self.blocks = tuple(blocks)
        width = (len(blocks) - bare) * size
        self.inputs = nn.ParameterList(nn.Parameter(torch.empty(width, n)) for n in self.input_sizes)
        self.bias = nn.Parameter(torch.zeros(len(blocks) * size))
        if recurrent:
            self.recurrent = nn.Parameter(torch.empty(len(recurrent) * size, size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialization, separately for each block: Glorot for the joined inputs, orthogonal for the matrices of U.

        An orthogonal matrix preserves the norm of hidden states and gradients over time (Saxe et al. 2014).
        """
        bound = (6.0 / (sum(self.input_sizes) + self.size)) ** 0.5
        for weight in self.inputs:
            nn.init.uniform_(weight, -bound, bound)
        for block in self.recurrent_blocks():
            nn.init.orthogonal_(block)

    def recurrent_blocks(self) -> tuple[Tensor, ...]:
        """The matrices of U, one per recurrent block; empty if the cell has no U."""
        return torch.split(self.recurrent, self.size) if "recurrent" in self._parameters else ()

    def project(self, x: Tensor, n: int = 0, onto: Tensor | None = None, add: Add = add) -> Tensor:
        """The projection of input number ``n``, added to ``onto``, those of other inputs; input 0 adds the bias."""
        return add(self.inputs[n], x, self.bias if n == 0 else onto)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
    ) -> tuple[Tensor, CellState]:
        """One step: the hidden state h and the new state, from the projected input and the previous state.

        add: function that adds U x to a tensor; in a loop over steps, ``Loop.add``, whose gradient is cheaper.
        """
        raise NotImplementedError

    @property
    def has_fused_kernel(self) -> bool:
        """Whether PyTorch has a fused kernel for this recurrence, so that ``forward_fused`` is implemented."""
        return False

    def forward_fused(self, x_BSE: Tensor, state: CellState, mask_BS: Tensor | None) -> tuple[Tensor, CellState]:
        """All steps at once by the fused kernel; padding, if any, must be at the end of every row."""
        raise NotImplementedError

    def named_blocks(self, z: Tensor) -> dict[str, Tensor]:
        """The blocks of z by name."""
        return dict(zip(self.blocks, z.chunk(len(self.blocks), -1), strict=True))

    def weight_of_input(self, n: int) -> Tensor:
        """The weights that multiply input number ``n``, Z × its size."""
        weight: Tensor = self.inputs[n]
        return weight

    def input_weight(self) -> Tensor:
        """The weights of all inputs as one matrix, which multiplies the concatenated inputs."""
        return self.inputs[0] if len(self.inputs) == 1 else torch.cat(tuple(self.inputs), 1)


def final_hidden(h_BSH: Tensor, mask_BS: Tensor | None, initial_BH: Tensor) -> Tensor:
    """h at the last step of every row before its padding, which is at the end; the initial h if all is padding."""
    if mask_BS is None:
        return h_BSH[:, -1]
    last_B = (mask_BS.sum(1) - 1).clamp(min=0)
    h_BH = h_BSH.gather(1, last_B[:, None, None].expand(-1, 1, h_BSH.shape[2])).squeeze(1)
    return torch.where(mask_BS[:, :1], h_BH, initial_BH)

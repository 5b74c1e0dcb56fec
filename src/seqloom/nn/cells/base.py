"""What every cell shares: its blocks of weights, their initial values, and the way to a fused twin.

A cell is split in two. ``project`` is affine and has one block of weights per input; the blocks add up,

    z_t = W_e e_t + b + W_c c_t,

so that what is known for all steps (embeddings) is one matrix product before the loop, and what arrives step by
step (a context, an attended vector) is added inside it. ``forward(z, state) → (h, state)`` holds the recurrence and
every nonlinearity, and reads like the published equations.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqloom.nn.add import Add, add
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent


class Cell(nn.Module):
    """One step of a recurrence.

    inputs: the size of the input, or the sizes of several inputs.
    size: the size of the hidden state.
    blocks: names of the blocks of z, each ``size`` wide: what the input contributes to.
    recurrent: those of them that h_{t−1} contributes to by a matrix of U, if any.
    bare: how many of the blocks, from the end, x enters without such a matrix.
    """

    parts: ClassVar[tuple[str, ...]] = ("h",)
    """Names of the tensors of the state; the first is the output."""

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
        """Glorot for the inputs, taken together and gate by gate; orthogonal for the recurrence, gate by gate.

        An orthogonal matrix neither shrinks nor grows what passes through it, forward or backward in time
        (Saxe et al. 2014).
        """
        bound = (6.0 / (sum(self.input_sizes) + self.size)) ** 0.5
        for weight in self.inputs:
            nn.init.uniform_(weight, -bound, bound)
        for block in self.recurrent_blocks():
            nn.init.orthogonal_(block)

    def recurrent_blocks(self) -> tuple[Tensor, ...]:
        """The matrices of U, one for each recurrent block; a cell without any has no U."""
        return torch.split(self.recurrent, self.size) if "recurrent" in self._parameters else ()

    def project(self, x: Tensor, block: int = 0, onto: Tensor | None = None, add: Add = add) -> Tensor:
        """What input number ``block`` contributes to z, added onto what others did; the bias comes with the first."""
        return add(self.inputs[block], x, self.bias if block == 0 else onto)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        """One step: from the projected input and the last state to h and the new state.

        add: how to add U x onto something; in a loop over steps it is the loop's, whose gradient costs less.
        """
        raise NotImplementedError

    @property
    def has_twin(self) -> bool:
        """Whether PyTorch has this very recurrence as one fused operation, for ``run_twin``."""
        return False

    def run_twin(self, x_BSE: Tensor, state: CellState, real_BS: Tensor | None) -> tuple[Tensor, CellState]:
        """All steps at once by the fused twin; padding, if any, is at the end of every row."""
        raise NotImplementedError

    def named_blocks(self, z: Tensor) -> dict[str, Tensor]:
        """The blocks of z by name."""
        return dict(zip(self.blocks, z.chunk(len(self.blocks), -1), strict=True))

    def block_weight(self, block: int) -> Tensor:
        """All that multiplies input number ``block``, Z × its size."""
        weight: Tensor = self.inputs[block]
        return weight

    def input_weight(self) -> Tensor:
        """The weights of all inputs side by side, as they act on the inputs joined to one vector."""
        return self.inputs[0] if len(self.inputs) == 1 else torch.cat(tuple(self.inputs), 1)


def last_real(h_BSH: Tensor, real_BS: Tensor | None, start_BH: Tensor) -> Tensor:
    """h after the last real step of every row, the real steps coming first; where there are none, as at the start."""
    if real_BS is None:
        return h_BSH[:, -1]
    last_B = (real_BS.sum(1) - 1).clamp(min=0)
    h_BH = h_BSH.gather(1, last_B[:, None, None].expand(-1, 1, h_BSH.shape[2])).squeeze(1)
    return torch.where(real_BS[:, :1], h_BH, start_BH)

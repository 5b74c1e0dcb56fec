"""The three best cells of a search over ten thousand: MUT1, MUT2 and MUT3.

Jozefowicz, Zaremba and Sutskever 2015, "An empirical exploration of recurrent network architectures". In MUT1 and
MUT2 the input enters one place without a matrix, and so needs the hidden width there. Where the widths differ, that
bare x, and nothing else, becomes P x with a learned P.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, silent
from seqloom.registry import register


class Mutant(Cell):
    """What the three share: x projected without its biases, a bare x as the last block of z.

    The biases stand in ``forward``, since in MUT1 one of them is outside of a nonlinearity that x is inside of.
    """

    def __init__(
        self, inputs: int | Sequence[int], size: int, blocks: Sequence[str], recurrent: Sequence[str], bare: int
    ) -> None:
        super().__init__(inputs, size, blocks, recurrent, bare)
        self.bare = bare
        needs_P = bare and sum(self.input_sizes) != size  # several inputs are one x, joined
        self.bare_inputs = nn.ParameterList(
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(size, n))) for n in self.input_sizes if needs_P
        )

    def project(self, x: Tensor, block: int = 0, onto: Tensor | None = None, add: Add = add) -> Tensor:
        width = self.inputs[block].shape[0]
        onto_W, onto_bare = (None, None) if onto is None else onto.tensor_split((width,), -1)
        z = add(self.inputs[block], x, onto_W)
        if not self.bare:
            return z
        bare = add(self.bare_inputs[block], x, onto_bare) if self.bare_inputs else self._placed(x, block, onto_bare)
        return torch.cat((z, bare), -1)

    def _placed(self, x: Tensor, block: int, onto: Tensor | None) -> Tensor:
        """A bare input at its place in the whole x."""
        before = sum(self.input_sizes[:block])
        placed = F.pad(x, (before, self.size - before - x.shape[-1]))
        return placed if onto is None else onto + placed

    def block_weight(self, block: int) -> Tensor:
        weight: Tensor = self.inputs[block]
        if not self.bare:
            return weight
        return torch.cat((weight, self._bare_weight(block)))

    def _bare_weight(self, block: int) -> Tensor:
        """P, or where there is none what puts an input at its place in x."""
        if self.bare_inputs:
            P: Tensor = self.bare_inputs[block]
            return P
        weight = self.inputs[block]
        begin = sum(self.input_sizes[:block])
        place = torch.eye(self.size, dtype=weight.dtype, device=weight.device)
        return place[:, begin : begin + self.input_sizes[block]]


@register("cell", "mut1")
class MUT1(Mutant):
    """MUT1: a GRU whose update gate does not see the past and whose candidate takes x bare.

    z = σ(W_xz x + b_z)
    r = σ(W_xr x + W_hr h + b_r)
    h' = tanh(W_hh (r ∘ h) + tanh(x) + b_h) ∘ z + h ∘ (1 − z)

    Jozefowicz et al. 2015.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        super().__init__(inputs, size, ("update", "reset", "candidate"), ("reset", "candidate"), bare=1)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        W_xz_x, W_xr_x, x = z_RZ.chunk(3, -1)
        W_hr, W_hh = self.recurrent.chunk(2)
        b_z, b_r, b_h = self.bias.chunk(3)
        z = probe("update", torch.sigmoid(W_xz_x + b_z))
        r = probe("reset", torch.sigmoid(add(W_hr, h, W_xr_x + b_r)))
        n = probe("candidate", torch.tanh(add(W_hh, r * h, torch.tanh(x) + b_h)))
        h = probe("h", n * z + h * (1 - z))
        return h, (h,)


@register("cell", "mut2")
class MUT2(Mutant):
    """MUT2: a GRU whose reset gate takes x bare.

    z = σ(W_xz x + W_hz h + b_z)
    r = σ(x + W_hr h + b_r)
    h' = tanh(W_hh (r ∘ h) + W_xh x + b_h) ∘ z + h ∘ (1 − z)

    Jozefowicz et al. 2015.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        blocks = ("update", "candidate", "reset")
        super().__init__(inputs, size, blocks, blocks, bare=1)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        W_xz_x, W_xh_x, x = z_RZ.chunk(3, -1)
        W_hz, W_hh, W_hr = self.recurrent.chunk(3)
        b_z, b_h, b_r = self.bias.chunk(3)
        z = probe("update", torch.sigmoid(add(W_hz, h, W_xz_x + b_z)))
        r = probe("reset", torch.sigmoid(add(W_hr, h, x + b_r)))
        n = probe("candidate", torch.tanh(add(W_hh, r * h, W_xh_x + b_h)))
        h = probe("h", n * z + h * (1 - z))
        return h, (h,)


@register("cell", "mut3")
class MUT3(Mutant):
    """MUT3: a GRU whose update gate sees the past through a tanh.

    z = σ(W_xz x + W_hz tanh(h) + b_z)
    r = σ(W_xr x + W_hr h + b_r)
    h' = tanh(W_hh (r ∘ h) + W_xh x + b_h) ∘ z + h ∘ (1 − z)

    Jozefowicz et al. 2015.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        blocks = ("update", "reset", "candidate")
        super().__init__(inputs, size, blocks, blocks, bare=0)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = silent, add: Add = add
    ) -> tuple[Tensor, CellState]:
        (h,) = state
        W_xz_x, W_xr_x, W_xh_x = z_RZ.chunk(3, -1)
        W_hz, W_hr, W_hh = self.recurrent.chunk(3)
        b_z, b_r, b_h = self.bias.chunk(3)
        z = probe("update", torch.sigmoid(add(W_hz, torch.tanh(h), W_xz_x + b_z)))
        r = probe("reset", torch.sigmoid(add(W_hr, h, W_xr_x + b_r)))
        n = probe("candidate", torch.tanh(add(W_hh, r * h, W_xh_x + b_h)))
        h = probe("h", n * z + h * (1 - z))
        return h, (h,)

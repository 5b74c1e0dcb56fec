"""MUT1, MUT2 and MUT3: the three best cells of a search over ten thousand architectures.

Jozefowicz, Zaremba and Sutskever 2015, "An empirical exploration of recurrent network architectures". In one equation
of MUT1 and of MUT2, the input x is used without a weight matrix ("bare"), so it must have the hidden size there. If
the sizes differ, this x is replaced by P x with a learned P.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.add import Add, add
from seqloom.nn.cells.base import Cell
from seqloom.nn.memory import CellState
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import register


class Mutant(Cell):
    """Base class of the three cells: projects x without biases; the last block of z is the bare x, if any.

    Biases are added in ``forward``, because in MUT1 one of them is outside the nonlinearity that x is inside of.
    """

    def __init__(
        self, inputs: int | Sequence[int], size: int, blocks: Sequence[str], recurrent: Sequence[str], bare: int
    ) -> None:
        super().__init__(inputs, size, blocks, recurrent, bare)
        self.bare = bare
        needs_P = bare and sum(self.input_sizes) != size  # several inputs are concatenated to one x
        self.bare_inputs = nn.ParameterList(
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(size, n))) for n in self.input_sizes if needs_P
        )

    def project(self, x: Tensor, n: int = 0, onto: Tensor | None = None, add: Add = add) -> Tensor:
        width = self.inputs[n].shape[0]
        onto_W, onto_bare = (None, None) if onto is None else onto.tensor_split((width,), -1)
        z = add(self.inputs[n], x, onto_W)
        if not self.bare:
            return z
        bare = add(self.bare_inputs[n], x, onto_bare) if self.bare_inputs else self._pad_bare(x, n, onto_bare)
        return torch.cat((z, bare), -1)

    def _pad_bare(self, x: Tensor, n: int, onto: Tensor | None) -> Tensor:
        """Bare input number ``n`` at its offset in the concatenated x, with zeros elsewhere."""
        offset = sum(self.input_sizes[:n])
        padded = F.pad(x, (offset, self.size - offset - x.shape[-1]))
        return padded if onto is None else onto + padded

    def weight_of_input(self, n: int) -> Tensor:
        weight: Tensor = self.inputs[n]
        if not self.bare:
            return weight
        return torch.cat((weight, self._bare_weight(n)))

    def _bare_weight(self, n: int) -> Tensor:
        """P of input number ``n``; without P, the columns of the identity matrix that it multiplies."""
        if self.bare_inputs:
            P: Tensor = self.bare_inputs[n]
            return P
        weight = self.inputs[n]
        offset = sum(self.input_sizes[:n])
        identity = torch.eye(self.size, dtype=weight.dtype, device=weight.device)
        return identity[:, offset : offset + self.input_sizes[n]]


@register("cell", "mut1")
class MUT1(Mutant):
    """MUT1: a GRU variant whose update gate ignores the previous state and whose candidate uses x without a matrix.

    z = σ(W_xz x + b_z)
    r = σ(W_xr x + W_hr h + b_r)
    h' = tanh(W_hh (r ∘ h) + tanh(x) + b_h) ∘ z + h ∘ (1 − z)

    Jozefowicz et al. 2015.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        super().__init__(inputs, size, ("update", "reset", "candidate"), ("reset", "candidate"), bare=1)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
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
    """MUT2: a GRU variant whose reset gate uses x without a matrix.

    z = σ(W_xz x + W_hz h + b_z)
    r = σ(x + W_hr h + b_r)
    h' = tanh(W_hh (r ∘ h) + W_xh x + b_h) ∘ z + h ∘ (1 − z)

    Jozefowicz et al. 2015.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        blocks = ("update", "candidate", "reset")
        super().__init__(inputs, size, blocks, blocks, bare=1)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
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
    """MUT3: a GRU variant whose update gate applies tanh to the previous state.

    z = σ(W_xz x + W_hz tanh(h) + b_z)
    r = σ(W_xr x + W_hr h + b_r)
    h' = tanh(W_hh (r ∘ h) + W_xh x + b_h) ∘ z + h ∘ (1 − z)

    Jozefowicz et al. 2015.
    """

    def __init__(self, inputs: int | Sequence[int], size: int) -> None:
        blocks = ("update", "reset", "candidate")
        super().__init__(inputs, size, blocks, blocks, bare=0)

    def forward(
        self, z_RZ: Tensor, state: CellState, probe: Probe = no_probe, add: Add = add
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

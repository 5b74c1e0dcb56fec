"""The products of one step of a recurrent decoder: computed directly, or as part of a loop over a known target."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.models.readouts import Readout
from seqloom.nn.cells import Cell
from seqloom.nn.memory import CellState, Memory
from seqloom.nn.probe import Probe
from seqloom.nn.unrolled import UnrolledCell, UnrolledContext, UnrolledLinear


class DirectProducts:
    """The products of a single step, as they stand in the equations."""

    def __init__(self, cells: nn.ModuleList, readout: Readout) -> None:
        self.cells = cells
        self.read = readout

    def cell(
        self, n: int, below: Tensor, more: Sequence[Tensor], past: CellState, probe: Probe
    ) -> tuple[Tensor, CellState]:
        """Layer n, on what lies below it, on further inputs and on its last state."""
        cell = cast(Cell, self.cells[n])
        z = cell.project(below)
        for block, x in enumerate(more, start=1):
            z = self.add(n, z, x, block)
        step: tuple[Tensor, CellState] = cell(z, past, probe)
        return step

    def add(self, n: int, z: Tensor, x: Tensor, block: int) -> Tensor:
        """z plus what input number ``block`` of layer n contributes."""
        return cast(Cell, self.cells[n]).add(z, x, block)

    def context(self, weights_BKS: Tensor, values_BSH: Tensor) -> Tensor:
        """What attention sees, B K H."""
        return weights_BKS @ values_BSH

    def readout(self, e: Tensor, s: Tensor, context: Tensor | None) -> Tensor:
        """The features of this step."""
        features: Tensor = self.read(e, s, context)
        return features


class FoldedProducts(DirectProducts):
    """The products of a single step where a context is only ever multiplied, by the first cell and by the readout.

        W a = W Σ_s w_s v_s = Σ_s w_s (W v_s)

    So W v_s is computed once for every step of the source, and what attention sees is [W_cell a; W_readout a] in the
    place of a. That pays in search, where all beams and steps see the same values.

    folded_BSX: W v_s, as ``fold`` gives it.
    into_cell: whether the first cell reads the context.
    """

    def __init__(self, cells: nn.ModuleList, readout: Readout, folded_BSX: Tensor, *, into_cell: bool) -> None:
        super().__init__(cells, readout)
        self.folded_BSX = folded_BSX
        self.into_cell = into_cell

    @staticmethod
    def fold(cells: nn.ModuleList, readout: Readout, values_BSH: Tensor, *, into_cell: bool) -> Tensor:
        """W v_s of every value."""
        weights = [cast(Cell, cells[0]).block_weight(1)] if into_cell else []
        if readout.uses_context and readout.linear is not None:
            weights.append(readout.linear.weight[:, -values_BSH.shape[2] :])
        return values_BSH @ torch.cat(weights).t()

    def add(self, n: int, z: Tensor, x: Tensor, block: int) -> Tensor:
        folded = n == 0 and block == 1 and self.into_cell
        return z + x[:, : z.shape[1]] if folded else super().add(n, z, x, block)

    def context(self, weights_BKS: Tensor, values_BSH: Tensor) -> Tensor:
        return weights_BKS @ self.folded_BSX

    def readout(self, e: Tensor, s: Tensor, context: Tensor | None) -> Tensor:
        if not self.read.uses_context:
            return super().readout(e, s, context)
        assert self.read.linear is not None
        assert context is not None
        others = self.read.join(e, s, context[:, :0])
        weight, bias = self.read.linear.weight, cast(Tensor | None, self.read.linear.bias)
        return self.read.react(F.linear(others, weight[:, : others.shape[1]], bias) + context[:, -len(weight) :])


class LoopProducts(DirectProducts):
    """The products of the steps t = 0, 1, … of a loop, each of whose weights has one gradient for all steps.

    What is known before the loop is computed for all steps at once: the first layer's product with the embeddings.
    """

    def __init__(self, cells: nn.ModuleList, readout: Readout, e_BTE: Tensor, memory: Memory) -> None:
        super().__init__(cells, readout)
        self.t = 0
        self.memory = memory
        first, *above = (cast(Cell, cell) for cell in cells)
        self.steps = [
            UnrolledCell(first, first.project(e_BTE), range(1, len(first.input_sizes))),
            *(UnrolledCell(cell, cell.bias_only(e_BTE), range(len(cell.input_sizes))) for cell in above),
        ]
        B, T, _ = e_BTE.shape
        self.contexts = UnrolledContext(memory["values"], T) if "keys" in memory else None
        self.linear: UnrolledLinear | None = None
        if readout.linear is not None:
            weight, bias = readout.linear.weight, cast(Tensor | None, readout.linear.bias)
            bias = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device) if bias is None else bias
            self.linear = UnrolledLinear(bias.expand(B, T, -1), [(weight, slice(None))])

    def cell(
        self, n: int, below: Tensor, more: Sequence[Tensor], past: CellState, probe: Probe
    ) -> tuple[Tensor, CellState]:
        return self.steps[n].step(self.t, (below, *more) if n else more, past, probe)

    def context(self, weights_BKS: Tensor, values_BSH: Tensor) -> Tensor:
        if self.contexts is None or values_BSH is not self.memory["values"]:  # a past that grows in the loop
            return super().context(weights_BKS, values_BSH)
        return self.contexts.step(self.t, weights_BKS)

    def readout(self, e: Tensor, s: Tensor, context: Tensor | None) -> Tensor:
        if self.linear is None:
            return super().readout(e, s, context)
        return self.read.react(self.linear.add(0, self.read.join(e, s, context), self.linear.begin(self.t)))

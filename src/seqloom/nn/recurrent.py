"""A cell over time: layers, both directions, any mask, and the fused twin where there is one."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from seqloom.batch import check_mask, hiding
from seqloom.errors import InputError, SizeError
from seqloom.nn.add import Add, Loop, add, autocast_type
from seqloom.nn.cells import Cell
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import CellState
from seqloom.nn.order import Order
from seqloom.nn.probe import Probe, at_step, silent, within
from seqloom.registry import Count, Share, Spec, build

INPUT_DEVIATION = 0.25
"""The standard deviation with which embeddings begin that a recurrence reads. Found by trying on Multi30k: with 1,
models are better in the first epoch and worse from the second on, their gates soon wide open or shut; with 1/√size,
hundreds of updates more pass until a decoder finds out where to attend."""


def over_time(
    cell: Cell,
    inputs: Sequence[Tensor],
    state: CellState,
    *,
    mask: Tensor | None = None,
    backward: bool = False,
    probe: Probe = silent,
) -> tuple[Tensor, CellState]:
    """One cell over all steps, forward or backward in time.

    inputs: one B S … tensor per input of the cell.
    state: the state before the first step.
    mask: B S, any pattern. A step that is not real leaves the state as it is and gives zeros.

    Returns h of every step, B S H, and the state after the last real one. The fused twin and the loop give the
    same; a probe is heard in the loop alone, so with one the loop runs.
    """
    given = [x.shape[-1] for x in inputs]
    if given != list(cell.input_sizes):  # the fused recurrences do not look, and read beyond their memory
        raise SizeError(f"a cell for inputs of sizes {list(cell.input_sizes)} was given {given}")
    if mask is not None:
        _check_mask(inputs[0], mask)
        inputs = [x.masked_fill(~mask[..., None], 0.0) for x in inputs]  # whatever stands there, even NaN
    if cell.has_twin and probe is silent:
        return _twin(cell, inputs[0] if len(inputs) == 1 else torch.cat(tuple(inputs), -1), state, mask, backward)
    return _loop(cell, inputs, state, mask, backward, probe)


def project(cell: Cell, inputs: Sequence[Tensor], add: Add = add) -> Tensor:
    """z: what all inputs of a cell contribute together."""
    z = cell.project(inputs[0], add=add)
    for block, x in enumerate(inputs[1:], start=1):
        z = cell.project(x, block, z, add)
    return z


def _loop(
    cell: Cell, inputs: Sequence[Tensor], state: CellState, mask: Tensor | None, backward: bool, probe: Probe
) -> tuple[Tensor, CellState]:
    z_S = project(cell, inputs).unbind(1)
    mask_S = None if mask is None else mask[..., None].unbind(1)
    loop, steps, h_S = Loop(len(z_S)), range(len(z_S)), list(z_S)
    for t in reversed(steps) if backward else steps:
        h_S[t], new = cell(z_S[t], state, at_step(probe, t), loop.add)
        if mask_S is not None:
            h_S[t] = h_S[t].masked_fill(~mask_S[t], 0.0)
            new = tuple(torch.where(mask_S[t], n, o) for n, o in zip(new, state, strict=True))
        state = new
    return torch.stack(h_S, 1), state


def _twin(
    cell: Cell, x_BSE: Tensor, state: CellState, mask: Tensor | None, backward: bool
) -> tuple[Tensor, CellState]:
    if autocast_type(x_BSE.device) is not None:  # not every processor has the fused recurrences in another type
        full = cell.recurrent.dtype
        with torch.autocast(x_BSE.device.type, enabled=False):
            return _twin(cell, x_BSE.to(full), tuple(part.to(full) for part in state), mask, backward)
    if mask is None:
        h_BSH, state = cell.run_twin(x_BSE.flip(1) if backward else x_BSE, state, None)
        return h_BSH.flip(1) if backward else h_BSH, state
    order = Order.of(mask, backward)
    h_BSH, state = cell.run_twin(order.apply(x_BSE), state, order.real_BS)
    return order.undo(h_BSH.masked_fill(~order.real_BS[..., None], 0.0)), state


def _check_mask(x_BSE: Tensor, mask: Tensor) -> None:
    if mask.dtype != torch.bool or mask.shape != x_BSE.shape[:2]:
        raise SizeError(
            f"the mask of a sequence of shape {tuple(x_BSE.shape)} must be bool and of shape "
            f"{tuple(x_BSE.shape[:2])}; it is {mask.dtype} and {tuple(mask.shape)}"
        )


class Recurrent(nn.Module):
    """A stack of recurrent layers, in one or both directions.

    cell: which cell, by name or with options.
    layers: how many, each reading what the one below gives.
    bidirectional: every layer reads both ways, its two outputs side by side: ``output_size`` is 2 · size.
    dropout: on what passes from one layer to the next.
    initial: the state before the first step where none is given, ``zero`` or ``learned``.
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        *,
        cell: Spec = "lstm",
        layers: Count = 1,
        bidirectional: bool = False,
        dropout: Share = 0.0,
        initial: Literal["zero", "learned"] = "zero",
    ) -> None:
        super().__init__()
        self.directions = ("forward", "backward") if bidirectional else ("forward",)
        self.size = size
        self.output_size = size * len(self.directions)
        widths = [input_size] + [self.output_size] * (layers - 1)
        self.layers = layers
        self.cells = nn.ModuleList(build("cell", cell, width, size) for width in widths for _ in self.directions)
        self.parts = cast(Cell, self.cells[0]).parts
        self.dropout = Dropout(dropout)
        self.initial = nn.ParameterList(
            nn.Parameter(torch.zeros(self.output_size))
            for _ in range(layers * len(self.parts) if initial == "learned" else 0)
        )

    def first_state(self, x_BSE: Tensor) -> tuple[CellState, ...]:
        """The state before the first step where none is given, for every layer."""
        zeros = [x_BSE.new_zeros(self.output_size)] * (self.layers * len(self.parts))
        rows = [vector.expand(x_BSE.shape[0], -1) for vector in (self.initial or zeros)]
        n = len(self.parts)
        return tuple(tuple(rows[i : i + n]) for i in range(0, len(rows), n))

    def forward(
        self,
        x_BSE: Tensor,
        mask: Tensor | None = None,
        state: Sequence[CellState] | None = None,
        *,
        probe: Probe = silent,
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """h of the top layer for every step, and every layer's last state, directions side by side."""
        state = self.first_state(x_BSE) if state is None else state
        self._check(x_BSE, state)
        if mask is not None:
            _check_mask(x_BSE, mask)
            if mask.device.type == "cpu" and not torch.compiler.is_compiling():  # as for ``hiding``
                check_mask("sequence", mask)
        mask = hiding(mask)
        final: list[CellState] = []
        for n in range(self.layers):
            x_BSE, last = self._layer(n, self.dropout(x_BSE) if n else x_BSE, mask, state[n], probe)
            final.append(last)
        return x_BSE, tuple(final)

    def _check(self, x_BSE: Tensor, state: Sequence[CellState]) -> None:
        if x_BSE.shape[1] == 0:
            raise InputError("a recurrence needs at least one step, and this sequence has none")
        wanted = [[(len(x_BSE), self.output_size)] * len(self.parts)] * self.layers
        given = [[tuple(part.shape) for part in layer] for layer in state]
        if given != wanted:
            raise SizeError(
                f"a first state is, for each of {self.layers} layers, ({', '.join(self.parts)}) of shape "
                f"{(len(x_BSE), self.output_size)}; given were {given}"
            )

    def _layer(
        self, n: int, x_BSE: Tensor, mask: Tensor | None, state: CellState, probe: Probe
    ) -> tuple[Tensor, CellState]:
        """One layer in all its directions, their results side by side."""
        D = len(self.directions)
        starts = zip(*(part.chunk(D, -1) for part in state), strict=True)
        outputs, lasts = [], []
        for d, (direction, start) in enumerate(zip(self.directions, starts, strict=True)):
            cell, place = cast(Cell, self.cells[n * D + d]), within(probe, f"{n}.{direction}.")
            backward = direction == "backward"
            h_BSH, last = over_time(cell, (x_BSE,), start, mask=mask, backward=backward, probe=place)
            outputs.append(h_BSH)
            lasts.append(last)
        if D == 1:
            return outputs[0], lasts[0]
        return torch.cat(outputs, -1), tuple(torch.cat(parts, -1) for parts in zip(*lasts, strict=True))

"""Recurrent networks: a cell unrolled over time, with masks, layers, directions and fused kernels."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from seqloom.batch import check_mask, mask_if_padded
from seqloom.errors import InputError, ShapeError
from seqloom.nn.add import Add, Loop, add, autocast_dtype
from seqloom.nn.cells import Cell
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import CellState
from seqloom.nn.order import Order
from seqloom.nn.probe import Probe, at_step, no_probe, scoped
from seqloom.registry import Fraction, Spec, build

EMBEDDING_INIT_STD = 0.25
"""Initial standard deviation of embeddings that a recurrent network reads. Chosen on Multi30k: with 1, models are
better in the first epoch and worse from the second on, as their gates soon saturate; with 1/√size, the decoder needs
hundreds of updates more to learn where to attend."""


def unroll(
    cell: Cell,
    inputs: Sequence[Tensor],
    state: CellState,
    *,
    mask: Tensor | None = None,
    backward: bool = False,
    probe: Probe = no_probe,
) -> tuple[Tensor, CellState]:
    """Run a cell over all steps, forward or backward in time.

    inputs: one B S … tensor per input of the cell.
    state: the initial state.
    mask: padding mask B S, of any pattern. A padding step does not change the state, and its output is zero.

    Returns the hidden states of all steps, B S H, and the final state. The fused kernel and the loop over steps
    compute the same results; only the loop calls a probe, so it runs whenever a probe is given.
    """
    sizes = [x.shape[-1] for x in inputs]
    if sizes != list(cell.input_sizes):  # the fused kernels don't check, and would read out of bounds
        raise ShapeError(f"the cell expects inputs of sizes {list(cell.input_sizes)}, but got sizes {sizes}")
    if mask is not None:
        _check_mask(inputs[0], mask)
        inputs = [x.masked_fill(~mask[..., None], 0.0) for x in inputs]  # even NaN in the padding has no effect
    if cell.has_fused_kernel and probe is no_probe:
        return _unroll_fused(
            cell, inputs[0] if len(inputs) == 1 else torch.cat(tuple(inputs), -1), state, mask, backward
        )
    return _unroll_loop(cell, inputs, state, mask, backward, probe)


def project(cell: Cell, inputs: Sequence[Tensor], add: Add = add) -> Tensor:
    """The projected input z: the sum of the projections of all inputs of a cell."""
    z = cell.project(inputs[0], add=add)
    for n, x in enumerate(inputs[1:], start=1):
        z = cell.project(x, n, z, add)
    return z


def _unroll_loop(
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


def _unroll_fused(
    cell: Cell, x_BSE: Tensor, state: CellState, mask: Tensor | None, backward: bool
) -> tuple[Tensor, CellState]:
    if autocast_dtype(x_BSE.device) is not None:  # not every processor has fused kernels for other dtypes
        dtype = cell.recurrent.dtype
        with torch.autocast(x_BSE.device.type, enabled=False):
            return _unroll_fused(cell, x_BSE.to(dtype), tuple(s.to(dtype) for s in state), mask, backward)
    if mask is None:
        h_BSH, state = cell.forward_fused(x_BSE.flip(1) if backward else x_BSE, state, None)
        return h_BSH.flip(1) if backward else h_BSH, state
    order = Order.of(mask, backward)
    h_BSH, state = cell.forward_fused(order.apply(x_BSE), state, order.mask_BS)
    return order.undo(h_BSH.masked_fill(~order.mask_BS[..., None], 0.0)), state


def _check_mask(x_BSE: Tensor, mask: Tensor) -> None:
    if mask.dtype != torch.bool or mask.shape != x_BSE.shape[:2]:
        raise ShapeError(
            f"the mask of a sequence of shape {tuple(x_BSE.shape)} must be bool, with shape "
            f"{tuple(x_BSE.shape[:2])}; it is {mask.dtype}, with shape {tuple(mask.shape)}"
        )


class StackedRNN(nn.Module):
    """Stacked recurrent layers, in one or both directions.

    cell: the cell, by name or with options (seqloom parts cell).
    layers: number of layers; each reads the outputs of the layer below.
    bidirectional: run every layer in both directions and concatenate the outputs: ``output_size`` is 2 · size.
    dropout: dropout probability between layers.
    initial_state: the state before the first step if none is given: ``zero`` or ``learned``.
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        *,
        cell: Spec = "lstm",
        layers: PositiveInt = 1,
        bidirectional: bool = False,
        dropout: Fraction = 0.0,
        initial_state: Literal["zero", "learned"] = "zero",
    ) -> None:
        super().__init__()
        self.directions = ("forward", "backward") if bidirectional else ("forward",)
        self.size = size
        self.output_size = size * len(self.directions)
        input_sizes = [input_size] + [self.output_size] * (layers - 1)
        self.layers = layers
        self.cells = nn.ModuleList(build("cell", cell, n, size) for n in input_sizes for _ in self.directions)
        self.state_names = cast(Cell, self.cells[0]).state_names
        self.dropout = Dropout(dropout)
        self.initial = nn.ParameterList(
            nn.Parameter(torch.zeros(self.output_size))
            for _ in range(layers * len(self.state_names) if initial_state == "learned" else 0)
        )

    def initial_state(self, x_BSE: Tensor) -> tuple[CellState, ...]:
        """The initial state of every layer, used if ``forward`` gets no state."""
        zeros = [x_BSE.new_zeros(self.output_size)] * (self.layers * len(self.state_names))
        rows = [vector.expand(x_BSE.shape[0], -1) for vector in (self.initial or zeros)]
        n = len(self.state_names)
        return tuple(tuple(rows[i : i + n]) for i in range(0, len(rows), n))

    def forward(
        self,
        x_BSE: Tensor,
        mask: Tensor | None = None,
        state: Sequence[CellState] | None = None,
        *,
        probe: Probe = no_probe,
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """Hidden states of the top layer, B S H, and the final state of every layer, directions concatenated."""
        state = self.initial_state(x_BSE) if state is None else state
        self._check(x_BSE, state)
        if mask is not None:
            _check_mask(x_BSE, mask)
            if mask.device.type == "cpu" and not torch.compiler.is_compiling():  # as in ``mask_if_padded``
                check_mask("sequence", mask)
        mask = mask_if_padded(mask)
        final: list[CellState] = []
        for n in range(self.layers):
            x_BSE, layer_final = self._forward_layer(n, self.dropout(x_BSE) if n else x_BSE, mask, state[n], probe)
            final.append(layer_final)
        return x_BSE, tuple(final)

    def _check(self, x_BSE: Tensor, state: Sequence[CellState]) -> None:
        if x_BSE.shape[1] == 0:
            raise InputError("a recurrent network needs sequences of at least one step, but the length is 0")
        expected = [[(len(x_BSE), self.output_size)] * len(self.state_names)] * self.layers
        shapes = [[tuple(s.shape) for s in layer] for layer in state]
        if shapes != expected:
            raise ShapeError(
                f"an initial state needs, for each of {self.layers} layers, ({', '.join(self.state_names)}) of shape "
                f"{(len(x_BSE), self.output_size)}; got {shapes}"
            )

    def _forward_layer(
        self, n: int, x_BSE: Tensor, mask: Tensor | None, state: CellState, probe: Probe
    ) -> tuple[Tensor, CellState]:
        """One layer in all its directions, with outputs and final states concatenated."""
        D = len(self.directions)
        initial_states = zip(*(s.chunk(D, -1) for s in state), strict=True)
        outputs, finals = [], []
        for d, (direction, initial) in enumerate(zip(self.directions, initial_states, strict=True)):
            h_BSH, final = unroll(
                cast(Cell, self.cells[n * D + d]),
                (x_BSE,),
                initial,
                mask=mask,
                backward=direction == "backward",
                probe=scoped(probe, f"{n}.{direction}."),
            )
            outputs.append(h_BSH)
            finals.append(final)
        if D == 1:
            return outputs[0], finals[0]
        return torch.cat(outputs, -1), tuple(torch.cat(both, -1) for both in zip(*finals, strict=True))

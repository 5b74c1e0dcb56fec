"""The recurrent decoder, with every wiring of the literature."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.models.decoders.base import Decoder, Surroundings
from seqloom.models.decoders.wiring import Context, Into, Wiring
from seqloom.models.encoders.base import StateShape
from seqloom.models.readouts import Readout
from seqloom.nn.attention import Attention
from seqloom.nn.cells import Cell
from seqloom.nn.memory import CellState, Decoded, Memory, State, Step, by_sentence, for_rows
from seqloom.nn.probe import Probe, silent, within
from seqloom.nn.recurrent import over_time
from seqloom.registry import Spec, build, check, register, split

Layer = Callable[[int, Tensor, Sequence[Tensor]], Tensor]
"""Runs layer n on what lies below it and on further inputs, and gives its h."""
Attend = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From a query to a context and its weights."""


class Wired(NamedTuple):
    """What the wiring gave, for one step or for all at once: the top state, the context, the weights."""

    s: Tensor
    context: Tensor | None
    weights: Tensor | None


@register("decoder", "recurrent")
class RecurrentDecoder(Decoder):
    """A stack of recurrent layers over the target, with attention wired in any of the known ways.

    With e_t the embedding of y_{t−1}, s_t the state, a_t the context and f_t the features:

        s_t = cell([e_t; a_t if it goes into the cell; f_{t−1} if input feeding], s_{t−1})
        f_t = readout(e_t, s_t, a_t)

    cell: which cell.
    size: of a hidden state.
    layers: how many.
    dropout: between layers, and on the features.
    initial: the first state where no bridge gives one, ``zero`` or ``learned``.
    context: what a_t is.
        ``none``: there is none (Sutskever et al. 2014);
        ``summary``: the encoder's summary, the same at every step (Cho et al. 2014);
        ``previous``: attention to the source, the query being s_{t−1} (Bahdanau et al. 2015);
        ``current``: attention to the source, the query being s_t (Luong et al. 2015);
        ``past``: attention to the decoder's own states s_1 … s_{t−1}, the query being s_t; a zero context at t = 1.
    into: where a_t goes beside the readout: ``cell``, the first layer (for what is known before s_t: ``summary``
        and ``previous``); ``above``, the second layer, the query then being the first layer's state; None, nowhere.
    readout: how state and context become features.
    input_feeding: whether f_{t−1} goes into the first layer (Luong et al. 2015).
    include_current: whether attention to the ``past`` also sees s_t itself.
    attention: options of the attention: score, normaliser, …
    """

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        cell: Spec = "lstm",
        size: int = 256,
        layers: int = 1,
        dropout: float = 0.0,
        initial: Literal["zero", "learned"] = "zero",
        context: Context = "current",
        into: Into | None = None,
        readout: Spec = "tanh",
        input_feeding: bool = False,
        include_current: bool = False,
        attention: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.wiring = wiring = Wiring(context, into, input_feeding, include_current)
        context_size = wiring.context_size(surroundings, size)
        self.readout: Readout = build("readout", readout, surroundings.input_size, size, context_size)
        wiring.check(layers, split(readout)[0], self.readout.uses_context, attention is not None)
        self.output_size = self.readout.output_size

        inputs = [[surroundings.input_size], *([size] for _ in range(layers - 1))]
        if into is not None:
            inputs[0 if into == "cell" else 1].append(context_size)
        if input_feeding:
            inputs[0].append(self.output_size)
        self.cells = nn.ModuleList(build("cell", cell, sizes, size) for sizes in inputs)
        self.first = StateShape(cast(Cell, self.cells[0]).parts, layers, size)
        self.dropout = nn.Dropout(dropout)
        self.attention: Attention | None = None
        if wiring.attends:
            self.attention = Attention(size, context_size, **check("attention", Attention, attention or {}))
        self.initial = nn.ParameterDict(
            {name.replace(".", "_"): torch.zeros(size) for name in self._state_names() if initial == "learned"}
        )

    def _state_names(self, layers: slice = slice(None)) -> list[str]:
        """Names of the cells' tensors in a ``State``."""
        assert self.first is not None
        return [f"{n}.{part}" for n in range(self.first.layers)[layers] for part in self.first.parts]

    def _cell_state(self, n: int, state: State) -> CellState:
        return tuple(state[name] for name in self._state_names(slice(n, n + 1)))

    def prepare(self, values_BSH: Tensor) -> dict[str, Tensor]:
        if self.attention is None or self.wiring.context == "past":
            return {}
        return {"attention": self.attention.prepare(values_BSH)}

    def start(self, memory: Memory, first: tuple[CellState, ...] | None) -> State:
        B = len(memory)
        if first is not None:
            vectors = [tensor for layer in first for tensor in layer]
        else:
            own = list(self.initial.values()) or [memory.values.new_zeros(self.size)] * len(self._state_names())
            vectors = [vector.expand(B, -1) for vector in own]
        state = State(zip(self._state_names(), vectors, strict=True))
        if self.wiring.input_feeding:
            state["fed"] = memory.values.new_zeros(B, self.output_size)
        if self.attention is not None:
            if self.wiring.context == "past":
                state["past"] = memory.values.new_zeros(B, 0, self.size)
                state["past_keys"] = self.attention.prepare(state["past"])
            if self.attention.score.static:
                state["position"] = torch.zeros(B, dtype=torch.long, device=memory.mask.device)
        return state

    def step(self, e_RE: Tensor, state: State, memory: Memory, *, probe: Probe = silent) -> Step:
        wired, new = self._advance(e_RE, cast(Cell, self.cells[0]).project(e_RE), state, memory, probe)
        features_RH = self._features(e_RE, wired)
        if self.wiring.input_feeding:
            new["fed"] = features_RH
        return Step(features_RH, wired.weights, new)

    def forward(
        self, e_BTE: Tensor, state: State, memory: Memory, *, weights: bool = False, probe: Probe = silent
    ) -> Decoded:
        run = self._one_by_one if self.wiring.sequential else self._at_once
        return run(e_BTE, state, memory, probe)

    def _wire(
        self,
        e: Tensor,
        fed: Sequence[Tensor],
        known: tuple[Tensor | None, Tensor | None],
        layer: Layer,
        attend: Attend,
    ) -> Wired:
        """The wiring, said once for one step and for all: from the inputs, and the context if it is known already."""
        context, weights = known
        extra: Sequence[Tensor] = (context, *fed) if self.wiring.into == "cell" and context is not None else fed
        s = layer(0, e, extra)
        above = self.wiring.into == "above"
        if above and self.wiring.attends_after:
            context, weights = attend(s)
        for n in range(1, len(self.cells)):
            s = layer(n, self.dropout(s), (context,) if above and n == 1 and context is not None else ())
        if not above and self.wiring.attends_after:
            context, weights = attend(s)
        return Wired(s, context, weights)

    def _features(self, e: Tensor, wired: Wired) -> Tensor:
        features: Tensor = self.dropout(self.readout(e, wired.s, wired.context))
        return features

    def _at_once(self, e_BTE: Tensor, state: State, memory: Memory, probe: Probe) -> Decoded:
        """All steps in parallel: each layer over the whole target, then the next."""
        T = e_BTE.shape[1]
        step_T = torch.arange(T, device=e_BTE.device)

        def layer(n: int, below: Tensor, more: Sequence[Tensor]) -> Tensor:
            cell = cast(Cell, self.cells[n])
            return over_time(cell, (below, *more), self._cell_state(n, state), probe=within(probe, str(n)))[0]

        def attend(s_BTH: Tensor) -> tuple[Tensor, Tensor]:
            assert self.attention is not None
            position_BT = state["position"][:, None] + step_T if "position" in state else None
            if self.wiring.context != "past":
                return self.attention.attend(
                    s_BTH, memory.keys["attention"], memory.values, memory.mask, position_BT=position_BT, probe=probe
                )
            newest_T = step_T if self.wiring.include_current else step_T - 1
            seen_1TT = (step_T <= newest_T[:, None])[None]
            keys = self.attention.prepare(s_BTH)
            return self.attention.attend(s_BTH, keys, s_BTH, seen_1TT, position_BT=position_BT, probe=probe)

        known = None
        if self.wiring.context == "summary" and memory.summary is not None:
            known = memory.summary[:, None].expand(-1, T, -1)
        wired = self._wire(e_BTE, (), (known, None), layer, attend)
        return Decoded(self._features(e_BTE, wired), wired.weights)

    def _one_by_one(self, e_BTE: Tensor, state: State, memory: Memory, probe: Probe) -> Decoded:
        """Step after step; only what depends on the step before is inside the loop."""
        steps: list[Wired] = []
        features: list[Tensor] = []
        z_BTZ = cast(Cell, self.cells[0]).project(e_BTE)
        for t, (e_BE, z_BZ) in enumerate(zip(e_BTE.unbind(1), z_BTZ.unbind(1), strict=True)):
            wired, state = self._advance(e_BE, z_BZ, state, memory, within(probe, f"[{t}]."))
            steps.append(wired)
            if self.wiring.input_feeding:
                state["fed"] = self._features(e_BE, wired)
                features.append(state["fed"])
        s, context, weights = (_stacked(x) for x in zip(*steps, strict=True))
        if features:
            return Decoded(torch.stack(features, 1), weights)
        assert s is not None
        return Decoded(self._features(e_BTE, Wired(s, context, weights)), weights)

    def _advance(self, e_RE: Tensor, z_RZ: Tensor, state: State, memory: Memory, probe: Probe) -> tuple[Wired, State]:
        """One step, z being the projection of e that may have been computed for all steps at once."""
        new = State()

        def layer(n: int, below: Tensor, more: Sequence[Tensor]) -> Tensor:
            cell = cast(Cell, self.cells[n])
            z = z_RZ if n == 0 else cell.project(below)
            for block, x in enumerate(more, start=1):
                z = z + cell.project(x, block)
            step: tuple[Tensor, CellState] = cell(z, self._cell_state(n, state), within(probe, f"{n}."))
            new.update(zip(self._state_names(slice(n, n + 1)), step[1], strict=True))
            return step[0]

        def attend(s_RH: Tensor) -> tuple[Tensor, Tensor]:
            assert self.attention is not None
            if "position" in state:
                new["position"] = state["position"] + 1
            past = self.wiring.context == "past"
            if past:
                new["past"] = torch.cat((state["past"], s_RH[:, None]), 1)
                new["past_keys"] = torch.cat((state["past_keys"], self.attention.prepare(s_RH[:, None])), 1)
                source = new if self.wiring.include_current else state
                keys, values, mask = source["past_keys"], source["past"], None
            else:
                keys, values, mask = memory.keys["attention"], memory.values, memory.mask
            # A sentence's beams are to attention what the steps of its target are: queries of one memory.
            B = len(values)
            context_BKH, weights_BKS = self.attention.attend(
                by_sentence(s_RH, B),
                keys,
                values,
                mask,
                position_BT=by_sentence(state["position"], B) if "position" in state else None,
                probe=probe,
            )
            return context_BKH.flatten(0, 1), weights_BKS.flatten(0, 1)

        known: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.wiring.context == "summary" and memory.summary is not None:
            known = for_rows(memory.summary, len(z_RZ)), None
        elif self.wiring.context == "previous":
            top_h = self._cell_state(len(self.cells) - 1, state)[0]
            known = attend(top_h)
        fed = (state["fed"],) if self.wiring.input_feeding else ()
        return self._wire(e_RE, fed, known, layer, attend), new


def _stacked(steps: Sequence[Tensor | None]) -> Tensor | None:
    """R X of every step → R T X; weights on a growing past are filled up with zeros."""
    there = [x for x in steps if x is not None]
    if not there:
        return None
    widest = there[-1].shape[1]
    return torch.stack([F.pad(x, (0, widest - x.shape[1])) if x.shape[1] < widest else x for x in there], 1)

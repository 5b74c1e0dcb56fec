"""The recurrent decoder, with every wiring of the literature."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.models.decoders.base import Decoder, Surroundings
from seqloom.models.decoders.wiring import Context, Into, Wiring
from seqloom.models.encoders.base import StateShape
from seqloom.models.readouts import Readout
from seqloom.nn.add import Add, Loop, add
from seqloom.nn.attention import Attention
from seqloom.nn.cells import Cell
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, check_beams, for_rows
from seqloom.nn.probe import Probe, at_step, each_step, silent, within
from seqloom.nn.recurrent import INPUT_DEVIATION, over_time
from seqloom.registry import Count, Share, Spec, build, check, register, split


class Wired(NamedTuple):
    """What the wiring gave, for one step R … or for T of them R T …: the top state, the context, its weights."""

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

    input_deviation = INPUT_DEVIATION
    uncompiled: ClassVar[tuple[str, ...]] = ("_sequential",)
    """A graph for every length would take longer to make than it ever saves."""

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        cell: Spec = "lstm",
        size: Count = 256,
        layers: Count = 1,
        dropout: Share = 0.0,
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
        self.attention: Attention | None = None
        if wiring.attends:
            self.attention = Attention(size, context_size, **check("attention", Attention, attention or {}))
        name, _ = split("readout", readout)
        wiring.check(layers, name, self.readout, self.attention, has_options=attention is not None)
        self.output_size = self.readout.output_size
        self.reads = wiring.reads
        self.sequential = wiring.sequential or (self.attention is not None and bool(self.attention.carrying))

        inputs = [[surroundings.input_size], *([size] for _ in range(layers - 1))]
        if into is not None:
            inputs[0 if into == "cell" else 1].append(context_size)
        if input_feeding:
            inputs[0].append(self.output_size)
        self.cells = nn.ModuleList(build("cell", cell, sizes, size) for sizes in inputs)
        parts = cast(Cell, self.cells[0]).parts
        self.first = StateShape(split("cell", cell)[0], parts, layers, size)
        self.state_names = [[f"{n}.{part}" for part in parts] for n in range(layers)]
        self.attends_to = wiring.attends_to
        self.context_layer = {"cell": 0, "above": 1}.get(into or "")
        self.query_layer = None if not wiring.attends_after else 0 if into == "above" else layers - 1
        self.initial = nn.ParameterList(
            nn.Parameter(torch.zeros(size)) for _ in range(layers * len(parts) if initial == "learned" else 0)
        )
        self.learns_first = initial == "learned"
        self.dropout = Dropout(dropout)

    def prepare(self, values_BSH: Tensor) -> dict[str, Tensor]:
        if self.attention is None or self.wiring.context == "past":
            return {}
        prepared = {"keys": self.attention.prepare(values_BSH)}
        readers = self._context_readers()
        if readers and not torch.is_grad_enabled():
            # W a = W Σ_s w_s v_s = Σ_s w_s (W v_s), and W v_s is the same for all beams and steps of a search.
            prepared["folded"] = values_BSH @ torch.cat(readers).t()
        return prepared

    def _context_readers(self) -> list[Tensor]:
        """The matrices of the first cell and of the readout that multiply a context; none if more is done with it."""
        if self.wiring.into == "above" or (self.readout.uses_context and self.readout.linear is None):
            return []
        cell = [cast(Cell, self.cells[0]).block_weight(1)] if self.wiring.into == "cell" else []
        return [*cell, *([self.readout.context_weight] if self.readout.uses_context else [])]

    def initial_state(self, memory: Memory, given: Mapping[str, Tensor] | None) -> DecoderState:
        B, like = memory.rows, memory["values"]
        names = [name for layer in self.state_names for name in layer]
        if given is None:
            own = list(self.initial) or [like.new_zeros(self.size)] * len(names)
            given = {name: vector.expand(B, -1) for name, vector in zip(names, own, strict=True)}
        state = DecoderState({name: given[name] for name in names})
        if self.wiring.input_feeding:
            state["fed"] = like.new_zeros(B, self.output_size)
        if self.attention is not None:
            if self.wiring.context == "past":
                state["past"] = like.new_zeros(B, 0, self.size)
                state["past_keys"] = self.attention.prepare(state["past"])
            elif self.attention.carrying:
                state.update({f"attention.{name}": x for name, x in self.attention.initial(memory["keys"]).items()})
            if self.attention.score.static:
                state["position"] = torch.zeros(B, dtype=torch.long, device=memory.mask.device)
        return state

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> DecoderOutput:
        folded_BSX = None if torch.is_grad_enabled() else memory.get("folded")  # it has no gradient of the weights
        z_RZ = cast(Cell, self.cells[0]).project(e_RE)
        (s, context, weights), new = self._step(z_RZ, state, memory, add, probe, folded_BSX)
        features_RH = self.dropout(self.readout(e_RE, s, context, folded=folded_BSX is not None))
        if self.wiring.input_feeding:
            new["fed"] = features_RH
        return DecoderOutput(features_RH, weights, new)

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = silent
    ) -> DecoderOutput:
        run = self._sequential if self.sequential else self._parallel
        decoded = run(e_BTE, state, memory, probe)
        return decoded if attention else decoded._replace(attention=None)

    def _parallel(self, e_BTE: Tensor, state: DecoderState, memory: Memory, probe: Probe) -> DecoderOutput:
        """All steps at once: each layer over the whole target, then the next."""
        new, context, weights = DecoderState(), None, None
        if self.wiring.context == "summary":
            context = memory["summary"][:, None].expand(-1, e_BTE.shape[1], -1)
        s_BTH = e_BTE
        for n, names in enumerate(self.state_names):
            inputs = [self.dropout(s_BTH) if n else e_BTE]
            if n == self.context_layer and context is not None:
                inputs.append(context)
            last = tuple(state[name] for name in names)
            s_BTH, parts = over_time(cast(Cell, self.cells[n]), inputs, last, probe=within(probe, f"{n}."))
            new.update(zip(names, parts, strict=True))
            if n == self.query_layer:
                each = each_step(probe, e_BTE.shape[1], growing=self.wiring.context == "past")
                context, weights = self._attend(s_BTH, state, new, memory, probe=each)
        return DecoderOutput(self.dropout(self.readout(e_BTE, s_BTH, context)), weights, new)

    def _sequential(self, e_BTE: Tensor, state: DecoderState, memory: Memory, probe: Probe) -> DecoderOutput:
        """Step after step; only what depends on the step before is inside the loop."""
        T, feeding = e_BTE.shape[1], self.wiring.input_feeding
        loop, z_BTZ = Loop(T), cast(Cell, self.cells[0]).project(e_BTE)
        noise = self.dropout.over_steps((*e_BTE.shape[:2], self.output_size), e_BTE) if feeding else None
        steps: list[Wired] = []
        features: list[Tensor] = []
        for t, (e_BE, z_BZ) in enumerate(zip(e_BTE.unbind(1), z_BTZ.unbind(1), strict=True)):
            wired, state = self._step(z_BZ, state, memory, loop.add, at_step(probe, t))
            steps.append(wired)
            if feeding:
                f_BH = self.readout(e_BE, wired.s, wired.context, loop.add)
                state["fed"] = f_BH if noise is None else f_BH * noise[t]
                features.append(state["fed"])
        longest = state["past"].shape[1] if self.wiring.context == "past" else None
        weights = _stacked([step.weights for step in steps], longest)
        if feeding:
            return DecoderOutput(torch.stack(features, 1), weights, state)
        s_BTH, context = torch.stack([step.s for step in steps], 1), _stacked([step.context for step in steps])
        return DecoderOutput(self.dropout(self.readout(e_BTE, s_BTH, context)), weights, state)

    def _step(
        self,
        z_RZ: Tensor,
        state: DecoderState,
        memory: Memory,
        add: Add,
        probe: Probe,
        folded_BSX: Tensor | None = None,
    ) -> tuple[Wired, DecoderState]:
        """One step of every row, from what its embedding contributes to the first cell.

        folded: W v_s in place of the values v_s; the context is then [W_cell a; W_readout a] in place of a.
        """
        new, context, weights = DecoderState(), None, None
        if self.wiring.context == "summary":
            context = for_rows(memory["summary"], z_RZ.shape[0])
        elif self.wiring.context == "previous":
            top = state[self.state_names[-1][0]]
            context, weights = self._attend(top[:, None], state, new, memory, folded_BSX, add=add, probe=probe)
            context, weights = context[:, 0], weights[:, 0]
        h_RH = z_RZ
        for n, names in enumerate(self.state_names):
            cell = cast(Cell, self.cells[n])
            if n:
                z_RZ = cell.project(self.dropout(h_RH), add=add)
            if n == self.context_layer and context is not None:
                is_folded = folded_BSX is not None
                z_RZ = z_RZ + context[:, : z_RZ.shape[1]] if is_folded else cell.project(context, 1, z_RZ, add)
            if n == 0 and self.wiring.input_feeding:
                z_RZ = cell.project(state["fed"], -1, z_RZ, add)
            h_RH, parts = cell(z_RZ, tuple(state[name] for name in names), within(probe, f"{n}."), add)
            new.update(zip(names, parts, strict=True))
            if n == self.query_layer:
                context, weights = self._attend(h_RH[:, None], state, new, memory, folded_BSX, add=add, probe=probe)
                context, weights = context[:, 0], weights[:, 0]
        return Wired(h_RH, context, weights), new

    def _attend(
        self,
        query_RTH: Tensor,
        state: DecoderState,
        new: DecoderState,
        memory: Memory,
        values: Tensor | None = None,
        *,
        add: Add = add,
        probe: Probe,
    ) -> tuple[Tensor, Tensor]:
        """The context R T H of T queries per row, and the weights R T S; what attention keeps goes into ``new``."""
        assert self.attention is not None
        R, T, _ = query_RTH.shape
        mask: Tensor | None
        if self.wiring.context == "past":
            values = new["past"] = torch.cat((state["past"], query_RTH), 1)
            keys = new["past_keys"] = torch.cat((state["past_keys"], self.attention.prepare(query_RTH)), 1)
            seen_T = torch.arange(T, device=keys.device) + state["past"].shape[1] + self.wiring.include_current
            mask = (torch.arange(keys.shape[1], device=keys.device) < seen_T[:, None])[None]
        else:
            values, keys, mask = memory["values"] if values is None else values, memory["keys"], memory.hiding
        # A sentence's beams are to attention what the steps of its target are: queries of one memory.
        B = keys.shape[0]
        check_beams(R, B)
        position_BQ = None
        if "position" in state:
            position_BQ = (state["position"][:, None] + torch.arange(T, device=keys.device)).view(B, -1)
            new["position"] = state["position"] + T
        past = {name: state[f"attention.{name}"].view(B, -1, keys.shape[1]) for name in self.attention.carrying}
        weights_BQS = self.attention.weigh(
            query_RTH.reshape(B, -1, query_RTH.shape[2]), keys, mask, position_BT=position_BQ, past=past, probe=probe
        )
        for name, past_BQS in self.attention.update(past, weights_BQS).items():
            new[f"attention.{name}"] = past_BQS.flatten(0, 1)
        context_BQH = add(values.mT, weights_BQS)
        return context_BQH.view(R, T, -1), weights_BQS.view(R, T, -1)


def _stacked(steps: Sequence[Tensor | None], width: int | None = None) -> Tensor | None:
    """R X of every step → R T X, each filled up with zeros to a ``width``: weights on a past grow."""
    there = [x for x in steps if x is not None]
    if not there:
        return None
    return torch.stack([x if width is None else F.pad(x, (0, width - x.shape[1])) for x in there], 1)

"""The recurrent decoder, with the attention wirings of the literature."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.models.decoders.base import Decoder, DecoderInputSizes
from seqloom.models.decoders.wiring import Context, ContextInput, Wiring
from seqloom.models.encoders.base import StateShape
from seqloom.models.readouts import Readout
from seqloom.nn.add import Add, Loop, add
from seqloom.nn.attention import Attention
from seqloom.nn.cells import Cell
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, check_beams, repeat_for_beams
from seqloom.nn.probe import Probe, at_step, each_step, no_probe, scoped
from seqloom.nn.recurrent import EMBEDDING_INIT_STD, unroll
from seqloom.registry import Fraction, Spec, build, parse_spec, register, validate_options


class WiringOutput(NamedTuple):
    """The top layer's state, the context and the attention weights, of one step (R …) or of T steps (R T …)."""

    s: Tensor
    context: Tensor | None
    weights: Tensor | None


@register("decoder", "recurrent")
class RecurrentDecoder(Decoder):
    """Recurrent decoder: a stack of RNN layers, with attention wired in any of the published ways.

    With e_t the embedding of y_{t−1}, s_t the state, a_t the context and f_t the features:

        s_t = cell([e_t; a_t with context_input='first_layer'; f_{t−1} with input feeding], s_{t−1})
        f_t = readout(e_t, s_t, a_t)

    cell: recurrent cell (seqloom parts cell).
    hidden_size: size of a hidden state.
    layers: number of layers.
    dropout: dropout probability between layers and on the features.
    initial_state: initial state where no bridge sets one, ``zero`` or ``learned``.
    context: what the context vector a_t is.
        ``none``: no context (Sutskever et al. 2014);
        ``summary``: the encoder's summary, the same at every step (Cho et al. 2014);
        ``previous``: attention over the source, queried with the previous state s_{t−1} (Bahdanau et al. 2015);
        ``current``: attention over the source, queried with the current state s_t (Luong et al. 2015);
        ``past``: attention over the decoder's own states s_1 … s_{t−1}, queried with s_t; zero at t = 1.
    context_input: layer that reads the context in addition to the readout: ``first_layer`` (for contexts known before
        s_t, ``summary`` and ``previous``) or ``second_layer`` (the first layer's state is then the query); None feeds
        the context to no layer.
    readout: how state and context become the features that the output reads (seqloom parts readout).
    input_feeding: feed the previous features f_{t−1} to the first layer (Luong et al. 2015).
    include_current: include the current state s_t in attention over the ``past``.
    attention: options of the attention, such as score and normalizer.
    """

    embedding_init_std = EMBEDDING_INIT_STD
    uncompiled: ClassVar[tuple[str, ...]] = ("_sequential",)
    """Methods that torch.compile skips: compiling a graph for every length takes longer than it saves."""

    def __init__(
        self,
        input_sizes: DecoderInputSizes,
        *,
        cell: Spec = "lstm",
        hidden_size: PositiveInt = 256,
        layers: PositiveInt = 1,
        dropout: Fraction = 0.0,
        initial_state: Literal["zero", "learned"] = "zero",
        context: Context = "current",
        context_input: ContextInput | None = None,
        readout: Spec = "tanh",
        input_feeding: bool = False,
        include_current: bool = False,
        attention: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.wiring = wiring = Wiring(context, context_input, input_feeding, include_current)
        context_size = wiring.context_size(input_sizes, hidden_size)
        self.readout: Readout = build("readout", readout, input_sizes.input_size, hidden_size, context_size)
        self.attention: Attention | None = None
        if wiring.attends:
            self.attention = Attention(
                hidden_size, context_size, **validate_options("attention", Attention, attention or {})
            )
        readout_name, _ = parse_spec("readout", readout)
        wiring.check(layers, readout_name, self.readout, self.attention, has_options=attention is not None)
        self.output_size = self.readout.output_size
        self.reads = wiring.reads
        self.sequential = wiring.sequential or (self.attention is not None and bool(self.attention.stateful_parts))

        cell_inputs = [[input_sizes.input_size], *([hidden_size] for _ in range(layers - 1))]
        if context_input is not None:
            cell_inputs[0 if context_input == "first_layer" else 1].append(context_size)
        if input_feeding:
            cell_inputs[0].append(self.output_size)
        self.cells = nn.ModuleList(build("cell", cell, sizes, hidden_size) for sizes in cell_inputs)
        names = cast(Cell, self.cells[0]).state_names
        self.initial_state_shape = StateShape(parse_spec("cell", cell)[0], names, layers, hidden_size)
        self.state_names = [[f"{n}.{name}" for name in names] for n in range(layers)]
        self.attends_to = wiring.attends_to
        self.context_layer = {"first_layer": 0, "second_layer": 1}.get(context_input or "")
        self.query_layer = None if not wiring.attends_after else 0 if context_input == "second_layer" else layers - 1
        self.initial = nn.ParameterList(
            nn.Parameter(torch.zeros(hidden_size))
            for _ in range(layers * len(names) if initial_state == "learned" else 0)
        )
        self.learns_initial_state = initial_state == "learned"
        self.dropout = Dropout(dropout)

    def prepare_memory(self, values_BSH: Tensor) -> dict[str, Tensor]:
        if self.attention is None or self.wiring.context == "past":
            return {}
        entries = {"keys": self.attention.project_keys(values_BSH)}
        weights = self._context_weights()
        if weights and not torch.is_grad_enabled():
            # W a = W Σ_s w_s v_s = Σ_s w_s (W v_s), and W v_s is the same for all beams and steps of a search.
            entries["folded"] = values_BSH @ torch.cat(weights).t()
        return entries

    def _context_weights(self) -> list[Tensor]:
        """The matrices of the first cell and of the readout that multiply a context; none if it has other uses."""
        if self.wiring.context_input == "second_layer" or (self.readout.uses_context and self.readout.linear is None):
            return []
        cell = [cast(Cell, self.cells[0]).weight_of_input(1)] if self.wiring.context_input == "first_layer" else []
        return [*cell, *([self.readout.context_weight] if self.readout.uses_context else [])]

    def initial_state(self, memory: Memory, given: Mapping[str, Tensor] | None) -> DecoderState:
        B, like = memory.rows, memory["values"]
        names = [name for layer in self.state_names for name in layer]
        if given is None:
            own = list(self.initial) or [like.new_zeros(self.hidden_size)] * len(names)
            given = {name: vector.expand(B, -1) for name, vector in zip(names, own, strict=True)}
        state = DecoderState({name: given[name] for name in names})
        if self.wiring.input_feeding:
            state["fed"] = like.new_zeros(B, self.output_size)
        if self.attention is not None:
            if self.wiring.context == "past":
                state["past"] = like.new_zeros(B, 0, self.hidden_size)
                state["past_keys"] = self.attention.project_keys(state["past"])
            elif self.attention.stateful_parts:
                state.update(
                    {f"attention.{name}": x for name, x in self.attention.initial_state(memory["keys"]).items()}
                )
            if self.attention.score.position_only:
                state["position"] = torch.zeros(B, dtype=torch.long, device=memory.mask.device)
        return state

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = no_probe) -> DecoderOutput:
        folded_BSX = None if torch.is_grad_enabled() else memory.get("folded")  # it passes no gradient to W
        z_RZ = cast(Cell, self.cells[0]).project(e_RE)
        (s, context, weights), new = self._step(z_RZ, state, memory, add, probe, folded_BSX)
        features_RH = self.dropout(self.readout(e_RE, s, context, folded=folded_BSX is not None))
        if self.wiring.input_feeding:
            new["fed"] = features_RH
        return DecoderOutput(features_RH, weights, new)

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = no_probe
    ) -> DecoderOutput:
        run = self._sequential if self.sequential else self._parallel
        decoded = run(e_BTE, state, memory, probe)
        return decoded if attention else decoded._replace(attention=None)

    def _parallel(self, e_BTE: Tensor, state: DecoderState, memory: Memory, probe: Probe) -> DecoderOutput:
        """Run all steps at once, one layer after another."""
        new, context, weights = DecoderState(), None, None
        if self.wiring.context == "summary":
            context = memory["summary"][:, None].expand(-1, e_BTE.shape[1], -1)
        s_BTH = e_BTE
        for n, names in enumerate(self.state_names):
            inputs = [self.dropout(s_BTH) if n else e_BTE]
            if n == self.context_layer and context is not None:
                inputs.append(context)
            start = tuple(state[name] for name in names)
            s_BTH, end = unroll(cast(Cell, self.cells[n]), inputs, start, probe=scoped(probe, f"{n}."))
            new.update(zip(names, end, strict=True))
            if n == self.query_layer:
                each = each_step(probe, e_BTE.shape[1], causal=self.wiring.context == "past")
                context, weights = self._attend(s_BTH, state, new, memory, probe=each)
        return DecoderOutput(self.dropout(self.readout(e_BTE, s_BTH, context)), weights, new)

    def _sequential(self, e_BTE: Tensor, state: DecoderState, memory: Memory, probe: Probe) -> DecoderOutput:
        """Run the steps one by one; only what depends on the previous step is inside the loop."""
        T, feeding = e_BTE.shape[1], self.wiring.input_feeding
        loop, z_BTZ = Loop(T), cast(Cell, self.cells[0]).project(e_BTE)
        masks = self.dropout.sample_step_masks((*e_BTE.shape[:2], self.output_size), e_BTE) if feeding else None
        steps: list[WiringOutput] = []
        features: list[Tensor] = []
        for t, (e_BE, z_BZ) in enumerate(zip(e_BTE.unbind(1), z_BTZ.unbind(1), strict=True)):
            wired, state = self._step(z_BZ, state, memory, loop.add, at_step(probe, t))
            steps.append(wired)
            if feeding:
                f_BH = self.readout(e_BE, wired.s, wired.context, loop.add)
                state["fed"] = f_BH if masks is None else f_BH * masks[t]
                features.append(state["fed"])
        past_length = state["past"].shape[1] if self.wiring.context == "past" else None
        weights = _stack_steps([step.weights for step in steps], past_length)
        if feeding:
            return DecoderOutput(torch.stack(features, 1), weights, state)
        s_BTH, context = torch.stack([step.s for step in steps], 1), _stack_steps([step.context for step in steps])
        return DecoderOutput(self.dropout(self.readout(e_BTE, s_BTH, context)), weights, state)

    def _step(
        self,
        z_RZ: Tensor,
        state: DecoderState,
        memory: Memory,
        add: Add,
        probe: Probe,
        folded_BSX: Tensor | None = None,
    ) -> tuple[WiringOutput, DecoderState]:
        """Run one step of every row.

        z: the projection of the embedding by the first cell.
        folded: W v_s instead of the values v_s; the context is then [W_cell a; W_readout a] instead of a.
        """
        new, context, weights = DecoderState(), None, None
        if self.wiring.context == "summary":
            context = repeat_for_beams(memory["summary"], z_RZ.shape[0])
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
            h_RH, end = cell(z_RZ, tuple(state[name] for name in names), scoped(probe, f"{n}."), add)
            new.update(zip(names, end, strict=True))
            if n == self.query_layer:
                context, weights = self._attend(h_RH[:, None], state, new, memory, folded_BSX, add=add, probe=probe)
                context, weights = context[:, 0], weights[:, 0]
        return WiringOutput(h_RH, context, weights), new

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
        """The context R T H and attention weights R T S of T queries per row; adds new state tensors to ``new``."""
        assert self.attention is not None
        R, T, _ = query_RTH.shape
        mask: Tensor | None
        if self.wiring.context == "past":
            values = new["past"] = torch.cat((state["past"], query_RTH), 1)
            keys = new["past_keys"] = torch.cat((state["past_keys"], self.attention.project_keys(query_RTH)), 1)
            seen_T = torch.arange(T, device=keys.device) + state["past"].shape[1] + self.wiring.include_current
            mask = (torch.arange(keys.shape[1], device=keys.device) < seen_T[:, None])[None]
        else:
            values, keys, mask = memory["values"] if values is None else values, memory["keys"], memory.mask_if_padded
        # Attention treats the beams of a sentence like further steps of its target: as queries of one memory.
        B = keys.shape[0]
        check_beams(R, B)
        position_BQ = None
        if "position" in state:
            position_BQ = (state["position"][:, None] + torch.arange(T, device=keys.device)).view(B, -1)
            new["position"] = state["position"] + T
        part_states = {
            name: state[f"attention.{name}"].view(B, -1, keys.shape[1]) for name in self.attention.stateful_parts
        }
        weights_BQS = self.attention.compute_weights(
            query_RTH.reshape(B, -1, query_RTH.shape[2]),
            keys,
            mask,
            position_BT=position_BQ,
            state=part_states,
            probe=probe,
        )
        for name, state_BQS in self.attention.update_state(part_states, weights_BQS).items():
            new[f"attention.{name}"] = state_BQS.flatten(0, 1)
        context_BQH = add(values.mT, weights_BQS)
        return context_BQH.view(R, T, -1), weights_BQS.view(R, T, -1)


def _stack_steps(steps: Sequence[Tensor | None], width: int | None = None) -> Tensor | None:
    """R X of every step → R T X, padded with zeros to ``width``: attention weights over the past grow."""
    tensors = [x for x in steps if x is not None]
    if not tensors:
        return None
    return torch.stack([x if width is None else F.pad(x, (0, width - x.shape[1])) for x in tensors], 1)

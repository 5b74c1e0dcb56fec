"""The recurrent decoder, with every wiring of the literature."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.models.decoders.base import Decoder, Surroundings
from seqloom.models.decoders.products import DirectProducts, FoldedProducts, LoopProducts
from seqloom.models.decoders.wiring import Context, Into, Wiring
from seqloom.models.encoders.base import StateShape
from seqloom.models.readouts import Readout
from seqloom.nn.attention import Attention
from seqloom.nn.cells import Cell
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, by_sentence, for_rows
from seqloom.nn.probe import Probe, at_step, silent, within
from seqloom.nn.recurrent import INPUT_DEVIATION, over_time
from seqloom.registry import Count, Share, Spec, build, check, register, split

Layer = Callable[[int, Tensor, Sequence[Tensor]], Tensor]
"""Runs layer n on what lies below it and on further inputs, and gives its h."""
Attend = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From a query to a context and its weights."""
Known = tuple[Tensor | None, Tensor | None]
"""A context that is known before the cell runs, and its weights."""


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

    input_deviation = INPUT_DEVIATION
    uncompiled: ClassVar[tuple[str, ...]] = ("_one_by_one",)
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
        self.initial = nn.ParameterList(
            nn.Parameter(torch.zeros(size)) for _ in range(layers * len(parts) if initial == "learned" else 0)
        )
        self.learns_first = initial == "learned"
        self.dropout = Dropout(dropout)

    def prepare(self, values_BSH: Tensor) -> dict[str, Tensor]:
        if self.attention is None or self.wiring.context == "past":
            return {}
        keys = {"keys": self.attention.prepare(values_BSH)}
        if self._folds and not torch.is_grad_enabled():
            keys["folded"] = FoldedProducts.fold(self.cells, self.readout, values_BSH, into_cell=self._into_cell)
        return keys

    @property
    def _into_cell(self) -> bool:
        return self.wiring.into == "cell"

    @property
    def _folds(self) -> bool:
        """Whether a context is only ever multiplied."""
        if self.readout.uses_context and self.readout.linear is None:
            return False
        return self.wiring.into != "above" and (self._into_cell or self.readout.uses_context)

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
            if self.attention.score.static:
                state["position"] = torch.zeros(B, dtype=torch.long, device=memory.mask.device)
        return state

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> DecoderOutput:
        products = DirectProducts(self.cells, self.readout)
        if "folded" in memory and not torch.is_grad_enabled():  # it has no gradient of the weights in it
            products = FoldedProducts(self.cells, self.readout, memory["folded"], into_cell=self._into_cell)
        wired, new = self._advance(e_RE, products, state, memory, probe)
        features_RH = self.dropout(products.readout(e_RE, wired.s, wired.context))
        if self.wiring.input_feeding:
            new["fed"] = features_RH
        return DecoderOutput(features_RH, wired.weights, new)

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = silent
    ) -> DecoderOutput:
        run = self._one_by_one if self.wiring.sequential else self._at_once
        decoded = run(e_BTE, state, memory, probe)
        return decoded if attention else decoded._replace(attention=None)

    def _wire(self, e: Tensor, fed: Sequence[Tensor], known: Known, layer: Layer, attend: Attend) -> Wired:
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

    def _at_once(self, e_BTE: Tensor, state: DecoderState, memory: Memory, probe: Probe) -> DecoderOutput:
        """All steps in parallel: each layer over the whole target, then the next."""
        T = e_BTE.shape[1]
        step_T = torch.arange(T, device=e_BTE.device)
        new = DecoderState()

        def layer(n: int, below: Tensor, more: Sequence[Tensor]) -> Tensor:
            past = tuple(state[name] for name in self.state_names[n])
            h, last = over_time(cast(Cell, self.cells[n]), (below, *more), past, probe=within(probe, f"{n}."))
            new.update(zip(self.state_names[n], last, strict=True))
            return h

        def attend(s_BTH: Tensor) -> tuple[Tensor, Tensor]:
            assert self.attention is not None
            mask: Tensor | None
            if self.wiring.context == "past":
                keys = new["past_keys"] = torch.cat((state["past_keys"], self.attention.prepare(s_BTH)), 1)
                values = new["past"] = torch.cat((state["past"], s_BTH), 1)
                before = state["past"].shape[1]
                newest_T = step_T + before if self.wiring.include_current else step_T + before - 1
                mask = (torch.arange(before + T, device=e_BTE.device) <= newest_T[:, None])[None]
            else:
                keys, values, mask = memory["keys"], memory["values"], memory.hiding
            position_BT = state["position"][:, None] + step_T if "position" in state else None
            if "position" in state:
                new["position"] = state["position"] + T
            weights = self.attention.weigh(s_BTH, keys, mask, position_BT=position_BT, probe=probe)
            return weights @ values, weights

        known = None
        if self.wiring.context == "summary":
            known = memory["summary"][:, None].expand(-1, T, -1)
        s, context, weights = self._wire(e_BTE, (), (known, None), layer, attend)
        return DecoderOutput(self.dropout(self.readout(e_BTE, s, context)), weights, new)

    def _one_by_one(self, e_BTE: Tensor, state: DecoderState, memory: Memory, probe: Probe) -> DecoderOutput:
        """Step after step; only what depends on the step before is inside the loop."""
        products = LoopProducts(self.cells, self.readout, e_BTE, memory)
        steps: list[Wired] = []
        features: list[Tensor] = []
        fed = self.wiring.input_feeding
        noise = self.dropout.over_steps((*e_BTE.shape[:2], self.output_size), e_BTE) if fed else None
        for t, e_BE in enumerate(e_BTE.unbind(1)):
            products.t = t
            wired, state = self._advance(e_BE, products, state, memory, at_step(probe, t))
            steps.append(wired)
            if self.wiring.input_feeding:
                f_BH = products.readout(e_BE, wired.s, wired.context)
                state["fed"] = f_BH if noise is None else f_BH * noise[t]
                features.append(state["fed"])
        longest = state["past"].shape[1] if self.wiring.context == "past" else None
        weights = _stacked([step.weights for step in steps], longest)
        if features:
            return DecoderOutput(torch.stack(features, 1), weights, state)
        s, context = torch.stack([step.s for step in steps], 1), _stacked([step.context for step in steps])
        return DecoderOutput(self.dropout(self.readout(e_BTE, s, context)), weights, state)

    def _advance(
        self, e_RE: Tensor, products: DirectProducts, state: DecoderState, memory: Memory, probe: Probe
    ) -> tuple[Wired, DecoderState]:
        """One step."""
        new = DecoderState()

        def layer(n: int, below: Tensor, more: Sequence[Tensor]) -> Tensor:
            past = tuple(state[name] for name in self.state_names[n])
            h, parts = products.cell(n, below, more, past, within(probe, f"{n}."))
            new.update(zip(self.state_names[n], parts, strict=True))
            return h

        def attend(s_RH: Tensor) -> tuple[Tensor, Tensor]:
            assert self.attention is not None
            if "position" in state:
                new["position"] = state["position"] + 1
            if self.wiring.context == "past":
                new["past"] = torch.cat((state["past"], s_RH[:, None]), 1)
                new["past_keys"] = torch.cat((state["past_keys"], self.attention.prepare(s_RH[:, None])), 1)
                source = new if self.wiring.include_current else state
                keys, values, mask = source["past_keys"], source["past"], None
            else:
                keys, values, mask = memory["keys"], memory["values"], memory.hiding
            # A sentence's beams are to attention what the steps of its target are: queries of one memory.
            B = values.shape[0]
            position_BK = by_sentence(state["position"], B) if "position" in state else None
            weights_BKS = self.attention.weigh(by_sentence(s_RH, B), keys, mask, position_BT=position_BK, probe=probe)
            return products.context(weights_BKS, values).flatten(0, 1), weights_BKS.flatten(0, 1)

        known: Known = (None, None)
        if self.wiring.context == "summary":
            known = for_rows(memory["summary"], e_RE.shape[0]), None
        elif self.wiring.context == "previous":
            known = attend(state[self.state_names[-1][0]])
        fed = (state["fed"],) if self.wiring.input_feeding else ()
        return self._wire(e_RE, fed, known, layer, attend), new


def _stacked(steps: Sequence[Tensor | None], width: int | None = None) -> Tensor | None:
    """R X of every step → R T X, each filled up with zeros to a ``width``: weights on a past grow."""
    there = [x for x in steps if x is not None]
    if not there:
        return None
    return torch.stack([x if width is None else F.pad(x, (0, width - x.shape[1])) for x in there], 1)

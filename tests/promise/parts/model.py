"""A model that has neither encoder nor decoder: the source's tokens, added up, are the first state of a GRU."""

from typing import Annotated

import torch
from torch import nn

from seqloom import register
from seqloom.models.base import Autoregressive
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, for_rows
from seqloom.nn.probe import silent
from seqloom.registry import Of, Spec, build


@register("model", "outside_bag")
class OutsideBag(Autoregressive):
    """s_0 = Σ_s x_s,  f_t = s_t = GRU([e_t; s_0], s_{t−1}).

    source, output: the parts, by name or with options.
    """

    max_length = None
    attends_to = None

    def __init__(self, sizes, *, source: Annotated[Spec, Of("embedder")] = "tokens", output: Spec = "tokens"):
        super().__init__()
        self.source = build("embedder", source, sizes["source"])
        self.output = build("output", output, sizes["target"])
        size = self.source.output_size
        self.cell = nn.GRUCell(self.output.input_size + size, size)
        self.output.attach(size, 1.0)

    @property
    def per_step(self):
        return self.cell, self.output

    def encode(self, batch, *, probe=silent):
        x_BSE, mask = self.source(batch.source)
        return Memory({"values": x_BSE, "mask": mask, "bag": (x_BSE * mask[..., None]).sum(1)})

    def initial_state(self, memory):
        return DecoderState({"s": memory["bag"]})

    def step(self, last, state, memory, *, probe=silent):
        fed_RX = torch.cat((self.output.feed(last), for_rows(memory["bag"], len(last))), -1)
        s_RH = self.cell(fed_RX, state["s"])
        return DecoderOutput(s_RH, None, DecoderState({"s": s_RH}))

    def forward(self, inputs, memory, state=None, *, attention=False, probe=silent):
        state, features = state or self.initial_state(memory), []
        for last in inputs.unbind(1):
            features_RH, _, state = self.step(last, state, memory)
            features.append(features_RH)
        return DecoderOutput(torch.stack(features, 1), None, state)

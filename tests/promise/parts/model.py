"""A model without encoder and decoder: the sum of the source embeddings is the initial state of a GRU."""

from typing import Annotated

import torch
from torch import nn

from seqloom import register
from seqloom.models.base import Autoregressive
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory, repeat_for_beams
from seqloom.nn.probe import no_probe
from seqloom.registry import Of, Spec, build


@register("model", "outside_bag")
class OutsideBag(Autoregressive):
    """s_0 = Σ_s x_s,  f_t = s_t = GRU([e_t; s_0], s_{t−1}).

    source_embedder: embedder of the source, by name or with options.
    output: output layer with its loss, by name or with options.
    """

    max_length = None
    attends_to = None

    def __init__(
        self, sizes, *, source_embedder: Annotated[Spec, Of("embedder")] = "tokens", output: Spec = "tokens"
    ):
        super().__init__()
        self.source_embedder = build("embedder", source_embedder, sizes["source"])
        self.output = build("output", output, sizes["target"])
        size = self.source_embedder.output_size
        self.cell = nn.GRUCell(self.output.input_size + size, size)
        self.output.set_feature_size(size, 1.0)

    @property
    def per_step(self):
        return self.cell, self.output

    def encode(self, batch, *, probe=no_probe):
        x_BSE, mask = self.source_embedder(batch.source)
        return Memory({"values": x_BSE, "mask": mask, "bag": (x_BSE * mask[..., None]).sum(1)})

    def initial_state(self, memory):
        return DecoderState({"s": memory["bag"]})

    def step(self, last, state, memory, *, probe=no_probe):
        fed_RX = torch.cat((self.output.feed(last), repeat_for_beams(memory["bag"], len(last))), -1)
        s_RH = self.cell(fed_RX, state["s"])
        return DecoderOutput(s_RH, None, DecoderState({"s": s_RH}))

    def forward(self, inputs, memory, state=None, *, attention=False, probe=no_probe):
        state, features = state or self.initial_state(memory), []
        for last in inputs.unbind(1):
            features_RH, _, state = self.step(last, state, memory)
            features.append(features_RH)
        return DecoderOutput(torch.stack(features, 1), None, state)

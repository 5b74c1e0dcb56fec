"""The language model: a decoder without an encoder."""

from collections.abc import Mapping
from typing import Any, ClassVar

from seqloom.batch import Batch
from seqloom.errors import InputError
from seqloom.models.base import Autoregressive, empty_memory
from seqloom.models.decoders import Decoder, DecoderInputSizes
from seqloom.models.inputs import Inputs
from seqloom.nn.memory import DecoderState, Memory
from seqloom.nn.outputs import Output
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import Spec, build, register


@register("model", "language_model")
class LanguageModel(Autoregressive):
    """Language model: a decoder without a source.

    sizes: the vocabulary size of ``target``, and the sizes of the fields of further inputs.

    decoder: decoder of the target, by name or with options.
    output: output layer with its loss, by name or with options.
    inputs: further inputs by name, ``{embedder: …, joins: target}``: concatenated to the decoder's input at every
        step.
    """

    has_source: ClassVar[bool] = False

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        decoder: Spec = {"name": "recurrent", "context": "none", "readout": "state"},  # noqa: B006
        output: Spec = "tokens",
        inputs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.inputs = Inputs(inputs, sizes)
        self.inputs.set_sizes(None, None)
        self.output: Output = build("output", output, sizes["target"])
        fed_size = self.output.input_size + self.inputs.fed_size
        self.decoder: Decoder = build("decoder", decoder, DecoderInputSizes(fed_size))
        self.attach_output()

    def encode(self, batch: Batch, *, probe: Probe = no_probe) -> Memory:
        if batch.source is not None:
            raise InputError("a language model has no source, but this batch has one")
        parameter = next(self.parameters())
        memory = empty_memory(batch.rows, parameter)
        return Memory(memory | self.inputs.target_entries(batch) | self.prepare_output(batch))

    def initial_state(self, memory: Memory) -> DecoderState:
        return self.inputs.add_step(self.decoder.initial_state(memory, None), memory)

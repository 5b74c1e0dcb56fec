"""The language model: a decoder alone."""

from collections.abc import Mapping
from typing import Any, ClassVar

from seqloom.batch import Batch
from seqloom.errors import InputError
from seqloom.models.base import Autoregressive, empty_memory
from seqloom.models.decoders import Decoder, Surroundings
from seqloom.models.inputs import Inputs
from seqloom.nn.memory import DecoderState, Memory
from seqloom.nn.outputs import Output
from seqloom.nn.probe import Probe, silent
from seqloom.registry import Spec, build, register


@register("model", "language_model")
class LanguageModel(Autoregressive):
    """A target out of nothing: a decoder with no source.

    sizes: of the target, the number of symbols, and of the fields of further inputs.

    decoder, output: the parts, by name or with options.
    inputs: further inputs by name, ``{embedder: …, joins: target}``.
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
        self.inputs.fit(None, None)
        self.output: Output = build("output", output, sizes["target"])
        fed_size = self.output.input_size + self.inputs.fed_size
        self.decoder: Decoder = build("decoder", decoder, Surroundings(fed_size))
        self.attach_output()

    def encode(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        if batch.source is not None:
            raise InputError("a language model has no source, and this batch has one")
        parameter = next(self.parameters())
        memory = empty_memory(batch.rows, parameter)
        return Memory(memory | self.inputs.for_target(batch) | self.prepared_output(batch))

    def initial_state(self, memory: Memory) -> DecoderState:
        return self.inputs.begin(self.decoder.initial_state(memory, None), memory)

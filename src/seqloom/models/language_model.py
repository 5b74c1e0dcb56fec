"""The language model: a decoder alone."""

from seqloom.batch import Batch
from seqloom.errors import InputError
from seqloom.models.base import Autoregressive
from seqloom.models.decoders import Decoder, Surroundings
from seqloom.nn.memory import Memory, State
from seqloom.nn.outputs import Output
from seqloom.nn.probe import Probe, silent
from seqloom.registry import Spec, build


class LanguageModel(Autoregressive):
    """A target out of nothing: a decoder with no source.

    vocabulary: how many symbols there are.

    decoder, output: the parts, by name or with options.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        decoder: Spec = {"name": "recurrent", "context": "none", "readout": "state"},  # noqa: B006
        output: Spec = "tokens",
    ) -> None:
        super().__init__()
        self.output: Output = build("output", output, vocabulary)
        self.decoder: Decoder = build("decoder", decoder, Surroundings(self.output.input_size))
        self.output.attach(self.decoder.output_size, self.decoder.input_deviation)

    def prepare(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        if batch.target is None or batch.source is not None:
            raise InputError("a language model needs a batch with a target and no source")
        B = batch.rows
        parameter = next(self.parameters())
        mask_BS = batch.target.mask.new_zeros(B, 0)
        return Memory(parameter.new_zeros(B, 0, 0), mask_BS, longest=self.decoder.longest, on_source=False)

    def start(self, memory: Memory) -> State:
        return self.decoder.start(memory, None)

"""The encoder–decoder."""

from collections.abc import Mapping
from typing import Annotated, Any

from seqloom.batch import Batch, Padded
from seqloom.errors import InputError, OptionError
from seqloom.models.base import Autoregressive
from seqloom.models.bridges import Bridge
from seqloom.models.decoders import Decoder, Surroundings
from seqloom.models.encoders import Encoder
from seqloom.models.inputs import Inputs
from seqloom.nn.embedders import Embedder
from seqloom.nn.embedders.tokens import TokenEmbedder
from seqloom.nn.memory import DecoderState, Memory
from seqloom.nn.order import reverse
from seqloom.nn.outputs import Output
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.probe import Probe, silent, within
from seqloom.registry import Of, Spec, build, register


@register("model", "encoder_decoder")
class EncoderDecoder(Autoregressive):
    """A source in, a target out: source → encoder → bridge → decoder → output.

    sizes: of the source and the target, the number of symbols, and of the fields of further inputs.

    source, encoder, bridge, decoder, output: the parts, by name or with options.
    inputs: further inputs by name, ``{embedder: …, joins: memory, source or target}``: appended to what attention
        reads, added to the source's vectors, or concatenated to what is fed at every step.
    share_embeddings: one table of embeddings for both sides, which then share one vocabulary.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        source: Annotated[Spec, Of("embedder")] = "tokens",
        encoder: Spec = "recurrent",
        bridge: Spec = "perceptron",
        decoder: Spec = "recurrent",
        output: Spec = "tokens",
        inputs: dict[str, Any] | None = None,
        share_embeddings: bool = False,
    ) -> None:
        super().__init__()
        if "source" not in sizes:
            raise OptionError("an encoder–decoder has a source: give sizes={'source': …, 'target': …}")
        self.source: Embedder = build("embedder", source, sizes["source"])
        self.encoder: Encoder = build("encoder", encoder, self.source.output_size)
        self.output: Output = build("output", output, sizes["target"])
        self.inputs = Inputs(inputs, sizes)
        self.inputs.fit(self.source.output_size, self.encoder.output_size)
        fed_size = self.output.input_size + self.inputs.fed_size
        surroundings = Surroundings(fed_size, self.encoder.output_size, self.encoder.summary_size)
        self.decoder: Decoder = build("decoder", decoder, surroundings)
        self.bridge: Bridge = build("bridge", bridge, self.encoder, self.decoder.first)
        self.source.begin_with(self.encoder.input_deviation)
        self.attach_output()
        self._check_read()
        if share_embeddings:
            self._share_embeddings(sizes)

    def _check_read(self) -> None:
        """Refuse a source that the decoder never hears of, and a learned first state that a bridge replaces."""
        reads = self.decoder.reads | self.bridge.reads
        if not reads:
            raise OptionError(
                "the decoder never hears of the source: give it a bridge, or a context that is about the source"
            )
        self.encoder.check_read(reads)
        if self.bridge.reads and self.decoder.learns_first:
            raise OptionError("decoder: initial='learned' has no use where a bridge gives the first state")

    def _share_embeddings(self, sizes: Mapping[str, int]) -> None:
        if not isinstance(self.source, TokenEmbedder) or not isinstance(self.output, TokenOutput):
            raise OptionError("share_embeddings needs tokens on both sides")
        sides = (sizes["source"], self.source.output_size), (sizes["target"], self.output.input_size)
        if sides[0] != sides[1]:
            raise OptionError(
                f"share_embeddings needs one vocabulary and one size on both sides; the source has {sides[0]}, "
                f"the target {sides[1]}"
            )
        self.source.embedding = self.output.embedding

    @property
    def longest_source(self) -> int | None:
        return self.encoder.longest

    def encode(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        if batch.source is None:
            raise InputError("an encoder–decoder needs a source, and this batch has none")
        x_BSE, mask = self.inputs.to_source(self.source(batch.source), batch)
        if self.source.reverse:
            x_BSE = reverse(x_BSE, mask)
        encoded = self.encoder(x_BSE, mask, probe=within(probe, "encoder."))
        states = reverse(encoded.values, mask) if self.source.reverse else encoded.values
        values = self.inputs.to_memory(Padded(states, mask), batch)
        return Memory(
            {
                "values": values.values,
                "mask": values.mask,
                "summary": encoded.summary,
                "source": batch.source.values,
                **{f"final.{name}": tensor for name, tensor in encoded.final.items()},
                **self.decoder.prepare(values.values),
                **self.inputs.for_target(batch),
                **self.prepared_output(batch),
            }
        )

    def initial_state(self, memory: Memory) -> DecoderState:
        return self.inputs.begin(self.decoder.initial_state(memory, self.bridge(memory)), memory)

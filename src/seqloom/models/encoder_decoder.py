"""The encoder–decoder."""

from seqloom.batch import Batch
from seqloom.errors import InputError, OptionError
from seqloom.models.base import Autoregressive
from seqloom.models.bridges import Bridge
from seqloom.models.decoders import Decoder, Surroundings
from seqloom.models.encoders import Encoder
from seqloom.nn.memory import Memory, State
from seqloom.nn.order import reverse
from seqloom.nn.outputs import Output
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.probe import Probe, silent, within
from seqloom.nn.sources import Source
from seqloom.nn.sources.tokens import TokenSource
from seqloom.registry import Spec, build


class EncoderDecoder(Autoregressive):
    """A source in, a target out: source → encoder → bridge → decoder → output.

    source_vocabulary, target_vocabulary: how many symbols each side has.

    source, encoder, bridge, decoder, output: the parts, by name or with options.
    share_embeddings: one table of embeddings for both sides, which then share one vocabulary.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        source: Spec = "tokens",
        encoder: Spec = "recurrent",
        bridge: Spec = "perceptron",
        decoder: Spec = "recurrent",
        output: Spec = "tokens",
        share_embeddings: bool = False,
    ) -> None:
        super().__init__()
        self.source: Source = build("source", source, source_vocabulary)
        self.encoder: Encoder = build("encoder", encoder, self.source.output_size)
        self.output: Output = build("output", output, target_vocabulary)
        surroundings = Surroundings(self.output.input_size, self.encoder.output_size, self.encoder.summary_size)
        self.decoder: Decoder = build("decoder", decoder, surroundings)
        self.bridge: Bridge = build("bridge", bridge, self.encoder, self.decoder.first)
        self.source.begin_with(self.encoder.input_deviation)
        self.output.attach(self.decoder.output_size, self.decoder.input_deviation)
        self._check_read()
        if share_embeddings:
            self._share_embeddings(source_vocabulary, target_vocabulary)

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

    def _share_embeddings(self, source_vocabulary: int, target_vocabulary: int) -> None:
        if not isinstance(self.source, TokenSource) or not isinstance(self.output, TokenOutput):
            raise OptionError("share_embeddings needs tokens on both sides")
        sizes = (source_vocabulary, self.source.output_size), (target_vocabulary, self.output.input_size)
        if sizes[0] != sizes[1]:
            raise OptionError(
                f"share_embeddings needs one vocabulary and one size on both sides; the source has {sizes[0]}, "
                f"the target {sizes[1]}"
            )
        self.source.embedding = self.output.embedding

    @property
    def longest_source(self) -> int | None:
        return self.encoder.longest

    def prepare(self, batch: Batch, *, probe: Probe = silent) -> Memory:
        if batch.source is None:
            raise InputError("an encoder–decoder needs a source, and this batch has none")
        source, mask = batch.source
        x_BSE = self.source(source)
        if self.source.reverse:
            x_BSE = reverse(x_BSE, mask)
        encoded = self.encoder(x_BSE, mask, probe=within(probe, "encoder."))
        values_BSH = reverse(encoded.values, mask) if self.source.reverse else encoded.values
        keys = self.decoder.prepare(values_BSH)
        return Memory(
            values_BSH,
            mask,
            keys,
            encoded.summary,
            encoded.final,
            source,
            longest=self.decoder.longest,
            on_source="values" in self.decoder.reads,
        )

    def start(self, memory: Memory) -> State:
        return self.decoder.start(memory, self.bridge(memory))

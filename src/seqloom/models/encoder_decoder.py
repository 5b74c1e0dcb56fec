"""The encoder–decoder."""

from collections.abc import Mapping
from typing import Annotated, Any

from seqloom.batch import Batch, Padded
from seqloom.errors import ConfigError, InputError
from seqloom.models.base import Autoregressive
from seqloom.models.bridges import Bridge
from seqloom.models.decoders import Decoder, DecoderInputSizes
from seqloom.models.encoders import Encoder
from seqloom.models.inputs import Inputs
from seqloom.nn.embedders import Embedder
from seqloom.nn.embedders.tokens import TokenEmbedder
from seqloom.nn.memory import DecoderState, Memory
from seqloom.nn.order import reverse
from seqloom.nn.outputs import Output
from seqloom.nn.outputs.tokens import TokenOutput
from seqloom.nn.probe import Probe, no_probe, scoped
from seqloom.registry import Of, Spec, build, register


@register("model", "encoder_decoder")
class EncoderDecoder(Autoregressive):
    """Encoder–decoder (sequence to sequence): source embedder → encoder → bridge → decoder → output.

    sizes: vocabulary sizes of ``source`` and ``target``, and the sizes of the fields of further inputs.

    source_embedder: embedder of the source, by name or with options.
    encoder: encoder of the embedded source, by name or with options.
    bridge: how the encoder's output becomes the decoder's initial state, by name or with options.
    decoder: decoder of the target, by name or with options.
    output: output layer with its loss, by name or with options.
    inputs: further inputs by name, ``{embedder: …, joins: memory, source or target}``: appended to the memory that
        attention reads, added to the source embeddings, or concatenated to the decoder's input at every step.
    share_embeddings: use one embedding table for source and target, which must share one vocabulary.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        source_embedder: Annotated[Spec, Of("embedder")] = "tokens",
        encoder: Spec = "recurrent",
        bridge: Spec = "dense",
        decoder: Spec = "recurrent",
        output: Spec = "tokens",
        inputs: dict[str, Any] | None = None,
        share_embeddings: bool = False,
    ) -> None:
        super().__init__()
        if "source" not in sizes:
            raise ConfigError("an encoder–decoder needs the size of its source: sizes={'source': …, 'target': …}")
        self.source_embedder: Embedder = build("embedder", source_embedder, sizes["source"])
        self.encoder: Encoder = build("encoder", encoder, self.source_embedder.output_size)
        self.output: Output = build("output", output, sizes["target"])
        self.inputs = Inputs(inputs, sizes)
        self.inputs.set_sizes(self.source_embedder.output_size, self.encoder.output_size)
        fed_size = self.output.input_size + self.inputs.fed_size
        input_sizes = DecoderInputSizes(fed_size, self.encoder.output_size, self.encoder.summary_size)
        self.decoder: Decoder = build("decoder", decoder, input_sizes)
        self.bridge: Bridge = build("bridge", bridge, self.encoder, self.decoder.initial_state_shape)
        self.source_embedder.set_init_std(self.encoder.embedding_init_std)
        self.attach_output()
        self._check_read()
        if share_embeddings:
            self._share_embeddings(sizes)

    def _check_read(self) -> None:
        """Refuse a decoder that does not read the source, and a learned initial state that a bridge replaces."""
        reads = self.decoder.reads | self.bridge.reads
        if not reads:
            raise ConfigError(
                "the decoder is not connected to the encoder: set bridge, or set decoder.context to summary, "
                "previous or current"
            )
        self.encoder.check_read(reads)
        if self.bridge.reads and self.decoder.learns_initial_state:
            raise ConfigError(
                "decoder: initial_state='learned' has no effect, because the bridge sets the initial state: "
                "remove it, or use bridge 'none'"
            )

    def _share_embeddings(self, sizes: Mapping[str, int]) -> None:
        if not isinstance(self.source_embedder, TokenEmbedder) or not isinstance(self.output, TokenOutput):
            raise ConfigError("share_embeddings needs source_embedder 'tokens' and output 'tokens'")
        sides = (sizes["source"], self.source_embedder.output_size), (sizes["target"], self.output.input_size)
        if sides[0] != sides[1]:
            raise ConfigError(
                "share_embeddings needs the same vocabulary size and embedding size on both sides; the source has "
                f"{sides[0]}, the target {sides[1]}"
            )
        self.source_embedder.embedding = self.output.embedding

    @property
    def max_source_length(self) -> int | None:
        return self.encoder.max_length

    def encode(self, batch: Batch, *, probe: Probe = no_probe) -> Memory:
        if batch.source is None:
            raise InputError("an encoder–decoder needs a source, but this batch has none")
        x_BSE, mask = self.inputs.join_source(self.source_embedder(batch.source), batch)
        if self.source_embedder.reverse:
            x_BSE = reverse(x_BSE, mask)
        encoded = self.encoder(x_BSE, mask, probe=scoped(probe, "encoder."))
        states = reverse(encoded.values, mask) if self.source_embedder.reverse else encoded.values
        values = self.inputs.join_memory(Padded(states, mask), batch)
        return Memory(
            {
                "values": values.values,
                "mask": values.mask,
                "summary": encoded.summary,
                "source": batch.source.values,
                **{f"final.{name}": tensor for name, tensor in encoded.final.items()},
                **self.decoder.prepare_memory(values.values),
                **self.inputs.target_entries(batch),
                **self.prepare_output(batch),
            }
        )

    def initial_state(self, memory: Memory) -> DecoderState:
        return self.inputs.add_step(self.decoder.initial_state(memory, self.bridge(memory)), memory)

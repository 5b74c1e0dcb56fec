"""The Transformer decoder."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import PositiveInt
from torch import Tensor, nn

from seqloom.models.decoders.base import Decoder, DecoderInputSizes
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory
from seqloom.nn.multihead import MultiHeadAttention
from seqloom.nn.positions import PositionalEncoding
from seqloom.nn.probe import Probe, no_probe, scoped
from seqloom.nn.transformer import DecoderLayer, FeedForwardActivation, NormPlacement
from seqloom.registry import Fraction, Spec, build, register


@register("decoder", "transformer")
class TransformerDecoder(Decoder):
    """Transformer decoder: a stack of self-attention, cross-attention and feed-forward layers.

    Vaswani et al. 2017. The state is a KV cache of all previous steps, so a step costs one query per layer. The
    attention weights it returns are the cross-attention of the last layer, averaged over heads. A language model has
    no cross-attention.

    hidden_size: size of the residual path (d_model); embeddings of another size are projected to it.
    layers: number of layers.
    heads: number of attention heads; hidden_size must be a multiple of it.
    ff_size: inner size of the feed-forward network; None means 4 · hidden_size.
    layer_norm: layer normalization before (``pre``) or after (``post``) each sub-layer.
    activation: activation function of the feed-forward network.
    positional_encoding: how positions are encoded (seqloom parts positional_encoding).
    dropout: dropout probability on every sub-layer, inside the feed-forward network, on the attention weights, and on
        the sum of embedding and position.
    """

    adam: ClassVar[Mapping[str, Any]] = {"lr": 1e-3, "betas": [0.9, 0.98]}
    warmup: ClassVar[int] = 1000

    def __init__(
        self,
        input_sizes: DecoderInputSizes,
        *,
        hidden_size: PositiveInt = 256,
        layers: PositiveInt = 3,
        heads: PositiveInt = 4,
        ff_size: PositiveInt | None = None,
        layer_norm: NormPlacement = "pre",
        activation: FeedForwardActivation = "relu",
        positional_encoding: Spec = "sinusoidal",
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__()
        self.output_size = hidden_size
        self.heads = heads
        E = input_sizes.input_size
        self.adapt = nn.Identity() if hidden_size == E else nn.Linear(E, hidden_size, bias=False)
        self.positions: PositionalEncoding = build("positional_encoding", positional_encoding, hidden_size)
        if self.positions.max_positions is not None:
            self.max_length = self.positions.max_positions - 1  # BOS takes the first position
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(
                hidden_size,
                heads,
                ff_size or 4 * hidden_size,
                layer_norm,
                activation,
                dropout,
                input_sizes.value_size,
            )
            for _ in range(layers)
        )
        self.has_source = input_sizes.value_size is not None
        self.reads = frozenset({"values"} if self.has_source else ())
        self.attends_to = "source" if self.has_source else None
        self.norm = nn.LayerNorm(hidden_size) if layer_norm == "pre" else nn.Identity()

    def prepare_memory(self, values_BSH: Tensor) -> dict[str, Tensor]:
        entries: dict[str, Tensor] = {}
        for n, layer in enumerate(self.layers):
            attention = cast(MultiHeadAttention, layer.cross_attention)
            entries[f"{n}.keys"], entries[f"{n}.values"] = attention.project_memory(values_BSH)
        return entries

    def initial_state(self, memory: Memory, given: Mapping[str, Tensor] | None) -> DecoderState:
        empty = memory["values"].new_zeros(memory.rows, self.heads, 0, self.output_size // self.heads)
        names = (f"{n}.{name}" for n in range(len(self.layers)) for name in ("keys", "values"))
        return DecoderState(dict.fromkeys(names, empty))

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = no_probe) -> DecoderOutput:
        decoded = self._run(e_RE[:, None], state, memory, attention=True, probe=probe, by_step=False)
        attention = None if decoded.attention is None else decoded.attention[:, 0]
        return DecoderOutput(decoded.features[:, 0], attention, decoded.state)

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = no_probe
    ) -> DecoderOutput:
        return self._run(e_BTE, state, memory, attention=attention, probe=probe, by_step=True)

    def _run(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool, probe: Probe, by_step: bool
    ) -> DecoderOutput:
        """Run T steps at once.

        by_step: whether the names that the probe sees contain the index of the step.
        """
        t = state["0.keys"].shape[2]
        x = self.dropout(self.positions(self.adapt(e_BTE), t))
        weights: Tensor | None = None
        new = DecoderState()
        for n, layer in enumerate(self.layers):
            k, v = f"{n}.keys", f"{n}.values"
            x, (new[k], new[v]), weights = layer(
                x,
                (state[k], state[v]),
                (memory[k], memory[v], memory.mask_if_padded) if self.has_source else None,
                return_attention=attention and self.has_source and n == len(self.layers) - 1,
                probe=scoped(probe, f"{n}."),
                by_step=by_step,
            )
        return DecoderOutput(self.norm(x), weights, new)

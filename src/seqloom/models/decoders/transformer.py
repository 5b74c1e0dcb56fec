"""The Transformer's decoder."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from seqloom.models.decoders.base import Decoder, Surroundings
from seqloom.nn.dropout import Dropout
from seqloom.nn.memory import DecoderOutput, DecoderState, Memory
from seqloom.nn.multihead import MultiHead
from seqloom.nn.positions import Positions
from seqloom.nn.probe import Probe, silent, within
from seqloom.nn.transformer import DecoderLayer, FeedForwardActivation, Norm
from seqloom.registry import Count, Share, Spec, build, register


@register("decoder", "transformer")
class TransformerDecoder(Decoder):
    """A stack of layers, each attending to the past, then to the source, then position-wise.

    Vaswani et al. 2017. A step keeps the keys and values of all steps before, so it costs one query per layer. The
    weights it shows are the last layer's on the source, averaged over the heads. In a language model there is no
    source and no attention to it.

    size: of everything on the residual path; embeddings of another size are projected to it.
    layers, heads: how many.
    feed_forward: the inner size of the position-wise network; by default 4 · size.
    norm: layer norm ``before`` or ``after`` each sub-layer.
    activation: of the position-wise network.
    positions: how a step knows where it is.
    dropout: on every sub-layer and within the position-wise network, on the weights of attention, and on the sum of
        embedding and position.
    """

    adam: ClassVar[Mapping[str, Any]] = {"rate": 1e-3, "betas": [0.9, 0.98]}
    warmup: ClassVar[int] = 1000

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        size: Count = 256,
        layers: Count = 3,
        heads: Count = 4,
        feed_forward: Count | None = None,
        norm: Norm = "before",
        activation: FeedForwardActivation = "relu",
        positions: Spec = "sinusoidal",
        dropout: Share = 0.1,
    ) -> None:
        super().__init__()
        self.output_size = size
        self.heads = heads
        E = surroundings.input_size
        self.adapt = nn.Identity() if size == E else nn.Linear(E, size, bias=False)
        self.positions: Positions = build("positions", positions, size)
        if self.positions.longest is not None:
            self.longest = self.positions.longest - 1  # START has the first
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(size, heads, feed_forward or 4 * size, norm, activation, dropout, surroundings.value_size)
            for _ in range(layers)
        )
        self.has_source = surroundings.value_size is not None
        self.reads = frozenset({"values"} if self.has_source else ())
        self.attends_to = "source" if self.has_source else None
        self.norm = nn.LayerNorm(size) if norm == "before" else nn.Identity()

    def prepare(self, values_BSH: Tensor) -> dict[str, Tensor]:
        keys: dict[str, Tensor] = {}
        for n, layer in enumerate(self.layers):
            attention = cast(MultiHead, layer.cross_attention)
            keys[f"{n}.keys"], keys[f"{n}.values"] = attention.prepare(values_BSH)
        return keys

    def initial_state(self, memory: Memory, given: Mapping[str, Tensor] | None) -> DecoderState:
        nothing = memory["values"].new_zeros(memory.rows, self.heads, 0, self.output_size // self.heads)
        names = (f"{n}.{name}" for n in range(len(self.layers)) for name in ("keys", "values"))
        return DecoderState(dict.fromkeys(names, nothing))

    def step(self, e_RE: Tensor, state: DecoderState, memory: Memory, *, probe: Probe = silent) -> DecoderOutput:
        decoded = self._steps(e_RE[:, None], state, memory, attention=True, probe=probe, by_step=False)
        attention = None if decoded.attention is None else decoded.attention[:, 0]
        return DecoderOutput(decoded.features[:, 0], attention, decoded.state)

    def forward(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool = False, probe: Probe = silent
    ) -> DecoderOutput:
        return self._steps(e_BTE, state, memory, attention=attention, probe=probe, by_step=True)

    def _steps(
        self, e_BTE: Tensor, state: DecoderState, memory: Memory, *, attention: bool, probe: Probe, by_step: bool
    ) -> DecoderOutput:
        """T steps at once; ``by_step``: the probe's names have their numbers."""
        t = state["0.keys"].shape[2]
        x = self.dropout(self.positions(self.adapt(e_BTE), t))
        weights: Tensor | None = None
        new = DecoderState()
        for n, layer in enumerate(self.layers):
            k, v = f"{n}.keys", f"{n}.values"
            x, (new[k], new[v]), weights = layer(
                x,
                (state[k], state[v]),
                (memory[k], memory[v], memory.hiding) if self.has_source else None,
                weights=attention and self.has_source and n == len(self.layers) - 1,
                probe=within(probe, f"{n}."),
                by_step=by_step,
            )
        return DecoderOutput(self.norm(x), weights, new)

"""The Transformer encoder."""

from pydantic import PositiveInt
from torch import Tensor, nn

from seqloom.batch import mask_if_padded
from seqloom.models.encoders.base import Encoder, EncoderOutput, masked_mean
from seqloom.nn.dropout import Dropout
from seqloom.nn.positions import PositionalEncoding
from seqloom.nn.probe import Probe, no_probe, scoped
from seqloom.nn.transformer import EncoderLayer, FeedForwardActivation, NormPlacement
from seqloom.registry import Fraction, Spec, build, register


@register("encoder", "transformer")
class TransformerEncoder(Encoder):
    """Transformer encoder: a stack of self-attention and feed-forward layers over the source.

    Vaswani et al. 2017. The summary is the mean of the values.

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

    def __init__(
        self,
        input_size: int,
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
        self.output_size = self.summary_size = hidden_size
        self.adapt = nn.Identity() if input_size == hidden_size else nn.Linear(input_size, hidden_size, bias=False)
        self.positions: PositionalEncoding = build("positional_encoding", positional_encoding, hidden_size)
        self.max_length = self.positions.max_positions
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(hidden_size, heads, ff_size or 4 * hidden_size, layer_norm, activation, dropout)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden_size) if layer_norm == "pre" else nn.Identity()

    def forward(self, x_BSE: Tensor, mask_BS: Tensor, *, probe: Probe = no_probe) -> EncoderOutput:
        x = self.dropout(self.positions(self.adapt(x_BSE)))
        padded_BS = mask_if_padded(mask_BS)
        for n, layer in enumerate(self.layers):
            x = layer(x, padded_BS, scoped(probe, f"{n}."))
        values_BSH = self.norm(x)
        return EncoderOutput(values_BSH, masked_mean(values_BSH, mask_BS), {})

"""The Transformer's encoder."""

from torch import Tensor, nn

from seqloom.batch import hiding
from seqloom.models.encoders.base import Encoded, Encoder, mean_of_real
from seqloom.nn.dropout import Dropout
from seqloom.nn.positions import Positions
from seqloom.nn.probe import Probe, silent, within
from seqloom.nn.transformer import EncoderLayer, FeedForwardActivation, Norm
from seqloom.registry import Count, Share, Spec, build, register


@register("encoder", "transformer")
class TransformerEncoder(Encoder):
    """A stack of self-attention and position-wise layers over the source.

    Vaswani et al. 2017. The summary is the mean of the values.

    size: of everything on the residual path; embeddings of another size are projected to it.
    layers, heads: how many.
    feed_forward: the inner size of the position-wise network; by default 4 · size.
    norm: layer norm ``before`` or ``after`` each sub-layer.
    activation: of the position-wise network.
    positions: how a step knows where it is.
    dropout: on every sub-layer and within the position-wise network, on the weights of attention, and on the sum of
        embedding and position.
    """

    def __init__(
        self,
        input_size: int,
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
        self.output_size = self.summary_size = size
        self.adapt = nn.Identity() if input_size == size else nn.Linear(input_size, size, bias=False)
        self.positions: Positions = build("positions", positions, size)
        self.longest = self.positions.longest
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(size, heads, feed_forward or 4 * size, norm, activation, dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(size) if norm == "before" else nn.Identity()

    def forward(self, x_BSE: Tensor, mask_BS: Tensor, *, probe: Probe = silent) -> Encoded:
        x = self.dropout(self.positions(self.adapt(x_BSE)))
        hiding_BS = hiding(mask_BS)
        for n, layer in enumerate(self.layers):
            x = layer(x, hiding_BS, within(probe, f"{n}."))
        values_BSH = self.norm(x)
        return Encoded(values_BSH, mean_of_real(values_BSH, mask_BS), {})

"""Token embeddings combined with those of the previous tokens."""

from torch.nn import functional as F

from seqloom import register
from seqloom.batch import Padded
from seqloom.nn.embedders.tokens import TokenEmbedder


@register("embedder", "outside_bigrams")
class OutsideBigrams(TokenEmbedder):
    """e_n = W[x_n] + ½ W[x_{n−1}]."""

    def forward(self, given):
        e, mask = super().forward(given)
        return Padded(e + F.pad(e[:, :-1], (0, 0, 1, 0)) / 2, mask)

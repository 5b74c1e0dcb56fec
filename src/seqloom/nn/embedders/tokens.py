"""Tokens in."""

from seqloom.batch import Padded
from seqloom.nn.embedders.base import Embedder
from seqloom.nn.embedding import Deviation, Embedded, Embedding
from seqloom.registry import Count, Share, register


@register("embedder", "tokens")
class TokenEmbedder(Embedder):
    """Tokens by an embedding: one learned vector per symbol of the vocabulary.

    vocabulary: how many symbols there are.

    size: of an embedding.
    dropout: on embeddings.
    noise: the standard deviation of Gaussian noise on embeddings, in training.
    word_dropout: the share of tokens that training replaces by the unknown one (Bowman et al. 2016).
    reverse: read the source backwards, which brings its first words near the target's first (Sutskever et al.
        2014). Results are put back in the order of the source.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        size: Count = 256,
        dropout: Share = 0.0,
        noise: Deviation = 0.0,
        word_dropout: Share = 0.0,
        reverse: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = size
        self.reverse = reverse
        self.embedding = Embedding(vocabulary, size)
        self.embedded = Embedded(dropout=dropout, noise=noise, word_dropout=word_dropout)

    def begin_with(self, deviation: float) -> None:
        self.embedded.begin_with(deviation, self.output_size)

    def forward(self, given: Padded) -> Padded:
        return Padded(self.embedded(given.values, self.embedding), given.mask)

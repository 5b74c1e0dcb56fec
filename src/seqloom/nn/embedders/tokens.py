"""Token embeddings as input."""

from pydantic import NonNegativeFloat, PositiveInt

from seqloom.batch import Padded
from seqloom.nn.embedders.base import Embedder
from seqloom.nn.embedding import Embedding, TokenEmbedding
from seqloom.registry import Fraction, register


@register("embedder", "tokens")
class TokenEmbedder(Embedder):
    """Token embeddings: one learned vector per vocabulary entry.

    vocabulary: the vocabulary size.

    embedding_size: size of an embedding.
    dropout: dropout probability of embeddings.
    embedding_noise: standard deviation of Gaussian noise added to embeddings in training; 0 adds none.
    word_dropout: probability of replacing a token by UNK in training (Bowman et al. 2016); 0 disables it.
    reverse: encode the source in reverse order, which brings its first words close to the first words of the target
        (Sutskever et al. 2014). Encoder states are returned in the original order.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        embedding_size: PositiveInt = 256,
        dropout: Fraction = 0.0,
        embedding_noise: NonNegativeFloat = 0.0,
        word_dropout: Fraction = 0.0,
        reverse: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = embedding_size
        self.reverse = reverse
        self.embedding = Embedding(vocabulary, embedding_size)
        self.embedded = TokenEmbedding(dropout=dropout, embedding_noise=embedding_noise, word_dropout=word_dropout)

    def set_init_std(self, std: float) -> None:
        self.embedded.set_init_std(std, self.output_size)

    def forward(self, given: Padded) -> Padded:
        return Padded(self.embedded(given.values, self.embedding), given.mask)

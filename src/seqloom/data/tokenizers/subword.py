"""Subword tokenization learned from the data: byte-pair encoding and the unigram language model."""

from collections.abc import Iterator

from pydantic import PositiveInt
from tokenizers import decoders, models, pre_tokenizers, trainers

from seqloom.data.tokenizers.base import Form, TokenizerTrainer, add_special_tokens, max_pieces
from seqloom.data.tokenizers.tokenizer import SPECIAL_TOKENS, UNK_PIECE, Tokenizer
from seqloom.registry import register

DIGITS = 4


class Subword(TokenizerTrainer):
    """Subwords of words. Punctuation is split off; a token after a space starts with ▁, as in SentencePiece."""

    marks_words = True

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Punctuation("isolated")]
        )

    def decoder(self) -> decoders.Decoder:
        return decoders.Metaspace(prepend_scheme="always")


@register("tokenizer", "bpe")
class BytePair(Subword):
    """Byte-pair encoding (BPE): subwords built by merging the most frequent pairs.

    Starting from single characters, training repeatedly merges the most frequent pair of adjacent tokens within words
    into one token, until the vocabulary is full. A character that is not in the training data is out-of-vocabulary
    (UNK). A literal ▁ in the text becomes a space.

    Paper: Sennrich, Haddow and Birch, 2016.

    vocab_size: maximum vocabulary size, including special tokens.
    min_frequency: minimum frequency of a pair to be merged; a model learns little about rarer tokens.
    lowercase: whether to lowercase the text.
    normalize: Unicode normalization form of the text; null leaves it unchanged.
    """

    name = "bpe"

    def __init__(
        self,
        *,
        vocab_size: PositiveInt = 8000,
        min_frequency: PositiveInt = 10,
        lowercase: bool = False,
        normalize: Form | None = "nfc",
    ) -> None:
        super().__init__(lowercase=lowercase, normalize=normalize, vocab_size=vocab_size, min_frequency=min_frequency)
        self.vocab_size = vocab_size
        self.min_frequency = min_frequency

    def train(self, texts: Iterator[str]) -> Tokenizer:
        trainer = trainers.BpeTrainer(
            vocab_size=max_pieces(self.vocab_size),
            limit_alphabet=max_pieces(self.vocab_size),
            min_frequency=self.min_frequency,
            show_progress=False,
        )
        trained = self._train_model(models.BPE(), trainer, texts)
        merges = [(left, right) for left, right in trained["merges"]]
        return self._build(models.BPE(add_special_tokens(trained["vocab"]), merges, unk_token=UNK_PIECE))


@register("tokenizer", "unigram")
class Unigram(Subword):
    """Unigram language model: subwords chosen by probability, as in SentencePiece.

    Every token x has a probability p(x), and text is segmented so that ∏ p(xᵢ) is maximal. Training starts from a
    very large candidate vocabulary. It repeatedly prunes the tokens whose removal reduces the likelihood of the
    training data least, until the vocabulary is small enough. A character that is not in the training data is
    out-of-vocabulary (UNK). A literal ▁ in the text becomes a space.

    Paper: Kudo, 2018.

    vocab_size: maximum vocabulary size, including special tokens.
    lowercase: whether to lowercase the text.
    normalize: Unicode normalization form of the text; null leaves it unchanged.
    """

    name = "unigram"

    def __init__(
        self, *, vocab_size: PositiveInt = 8000, lowercase: bool = False, normalize: Form | None = "nfc"
    ) -> None:
        super().__init__(lowercase=lowercase, normalize=normalize, vocab_size=vocab_size)
        self.vocab_size = vocab_size

    def train(self, texts: Iterator[str]) -> Tokenizer:
        trainer = trainers.UnigramTrainer(vocab_size=max_pieces(self.vocab_size), show_progress=False)
        trained = self._train_model(models.Unigram(), trainer, texts)
        special = [(piece, 0.0) for piece in SPECIAL_TOKENS]
        pieces = make_deterministic([(piece, score) for piece, score in trained["vocab"]])
        return self._build(models.Unigram([*special, *pieces], unk_id=SPECIAL_TOKENS[UNK_PIECE]))


def make_deterministic(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Make the vocabulary independent of the run, so that the same data always gives the same tokenizer.

    The library sums in the random order of a hash table, so log-probabilities vary in their last digits: they are
    rounded. Characters that the model pruned but that must stay in the vocabulary get scores below all others, 0.0001
    apart, in the same random order: they all get the highest of these scores.
    """
    lowest = min((score for piece, score in pieces if len(piece) > 1), default=0.0)
    kept = [score for piece, score in pieces if len(piece) == 1 and score < lowest]
    rounded = [
        (piece, round(max(kept) if len(piece) == 1 and score < lowest else score, DIGITS)) for piece, score in pieces
    ]
    return sorted(rounded, key=lambda piece: (-piece[1], piece[0]))

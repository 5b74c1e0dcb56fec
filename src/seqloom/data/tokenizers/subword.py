"""Parts of words, learned from the data: byte-pair encoding and the unigram model."""

from collections.abc import Iterator

from tokenizers import decoders, models, pre_tokenizers, trainers

from seqloom.data.tokenizers.base import Cutter, Form, room, with_special
from seqloom.data.tokenizers.tokenizer import SPECIAL, UNKNOWN_PIECE, Tokenizer
from seqloom.registry import Count, register

DIGITS = 4


class Subword(Cutter):
    """A word is cut into the parts that a model knows; punctuation is apart; what follows a space begins with ▁."""

    marks_words = True

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Punctuation("isolated")]
        )

    def decoder(self) -> decoders.Decoder:
        return decoders.Metaspace(prepend_scheme="always")


@register("tokenizer", "bpe")
class BytePair(Subword):
    """Parts of words by byte-pair encoding.

    From single characters on, the most frequent pair of neighbours within words becomes one token, again and again,
    until the vocabulary is full. A character that was not seen in training is unknown; ▁ itself becomes a space.

    Paper: Sennrich, Haddow and Birch, 2016.

    size: the most tokens the vocabulary may have, special symbols included.
    min_count: how often a pair must occur to become a token: of rarer ones a model learns little.
    lowercase: whether case is dropped.
    normalise: the Unicode form that text is brought to.
    """

    name = "bpe"

    def __init__(
        self,
        *,
        size: Count = 8000,
        min_count: Count = 10,
        lowercase: bool = False,
        normalise: Form | None = "nfc",
    ) -> None:
        super().__init__(lowercase=lowercase, normalise=normalise, size=size, min_count=min_count)
        self.size = size
        self.min_count = min_count

    def train(self, texts: Iterator[str]) -> Tokenizer:
        trainer = trainers.BpeTrainer(
            vocab_size=room(self.size),
            limit_alphabet=room(self.size),
            min_frequency=self.min_count,
            show_progress=False,
        )
        learned = self._learned(models.BPE(), trainer, texts)
        merges = [(left, right) for left, right in learned["merges"]]
        return self._finished(models.BPE(with_special(learned["vocab"]), merges, unk_token=UNKNOWN_PIECE))


@register("tokenizer", "unigram")
class Unigram(Subword):
    """Parts of words by the unigram language model.

    Every token x has a probability p(x), and text is cut where ∏ p(xᵢ) is greatest. From very many candidates, those
    are dropped that the likelihood of the training data misses least, until the vocabulary is small enough. A
    character that was not seen in training is unknown; ▁ itself becomes a space.

    Paper: Kudo, 2018.

    size: the most tokens the vocabulary may have, special symbols included.
    lowercase: whether case is dropped.
    normalise: the Unicode form that text is brought to.
    """

    name = "unigram"

    def __init__(self, *, size: Count = 8000, lowercase: bool = False, normalise: Form | None = "nfc") -> None:
        super().__init__(lowercase=lowercase, normalise=normalise, size=size)
        self.size = size

    def train(self, texts: Iterator[str]) -> Tokenizer:
        trainer = trainers.UnigramTrainer(vocab_size=room(self.size), show_progress=False)
        learned = self._learned(models.Unigram(), trainer, texts)
        special = [(piece, 0.0) for piece in SPECIAL]
        pieces = reproducible([(piece, score) for piece, score in learned["vocab"]])
        return self._finished(models.Unigram([*special, *pieces], unk_id=SPECIAL[UNKNOWN_PIECE]))


def reproducible(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces from every training on the same data.

    The library sums in the random order of a hash table, so log-probabilities differ in their last digits: we round.
    It also gives the characters that it must keep, though the model dropped them, scores 0.0001 apart in that order,
    below all others: we give all of them the highest of these.
    """
    lowest = min((score for piece, score in pieces if len(piece) > 1), default=0.0)
    kept = [score for piece, score in pieces if len(piece) == 1 and score < lowest]
    rounded = [
        (piece, round(max(kept) if len(piece) == 1 and score < lowest else score, DIGITS)) for piece, score in pieces
    ]
    return sorted(rounded, key=lambda piece: (-piece[1], piece[0]))

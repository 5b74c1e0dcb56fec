"""Tokenizers with a vocabulary of whole pieces: words, characters, or whitespace-separated symbols."""

from collections.abc import Iterator

from pydantic import PositiveInt
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from seqloom.data.tokenizers.base import WORD_START, Form, TokenizerTrainer, add_special_tokens, max_pieces
from seqloom.data.tokenizers.tokenizer import UNK_PIECE, Tokenizer
from seqloom.registry import register


class WordLevel(TokenizerTrainer):
    """A vocabulary of the most frequent pieces of text; ties are broken alphabetically."""

    def __init__(
        self, *, vocab_size: PositiveInt | None, min_frequency: PositiveInt, lowercase: bool, normalize: Form | None
    ) -> None:
        super().__init__(lowercase=lowercase, normalize=normalize, vocab_size=vocab_size, min_frequency=min_frequency)
        self.vocab_size = vocab_size
        self.min_frequency = min_frequency

    def train(self, texts: Iterator[str]) -> Tokenizer:
        trainer = trainers.WordLevelTrainer(
            vocab_size=max_pieces(self.vocab_size),
            min_frequency=self.min_frequency,
            special_tokens=[],
            show_progress=False,
        )
        trained = self._train_model(models.WordLevel(), trainer, texts)
        return self._build(models.WordLevel(add_special_tokens(trained["vocab"]), unk_token=UNK_PIECE))


@register("tokenizer", "word")
class Word(WordLevel):
    """Words; punctuation marks are separate tokens.

    A word after a space starts with ▁, so that decoding restores the text: ``Ein Hund.`` is ``▁Ein ▁Hund .``
    An out-of-vocabulary (OOV) word is decoded as � after a space. A literal ▁ in the text becomes a space.

    vocab_size: maximum vocabulary size, including special tokens; null is unlimited.
    min_frequency: minimum count of a word in the training data to be in the vocabulary. With 1, the training data has
        no out-of-vocabulary words.
    lowercase: whether to lowercase the text.
    normalize: Unicode normalization form of the text; null leaves it unchanged.
    """

    name = "word"
    unk_text = f"{WORD_START}�"
    marks_words = True

    def __init__(
        self,
        *,
        vocab_size: PositiveInt | None = None,
        min_frequency: PositiveInt = 1,
        lowercase: bool = False,
        normalize: Form | None = "nfc",
    ) -> None:
        super().__init__(vocab_size=vocab_size, min_frequency=min_frequency, lowercase=lowercase, normalize=normalize)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(prepend_scheme="never"),
                pre_tokenizers.Split(Regex(r"\s+"), "isolated"),  # tabs and other whitespace are not part of words
                pre_tokenizers.Punctuation("isolated"),
            ]
        )

    def decoder(self) -> decoders.Decoder:
        return decoders.Metaspace(prepend_scheme="always")


@register("tokenizer", "character")
class Character(WordLevel):
    """Characters, including spaces.

    A character is one Unicode code point. In the form ``nfc``, most accented letters are one code point; in ``nfd``,
    accents are separate.

    vocab_size: maximum vocabulary size, including special tokens; null is unlimited.
    min_frequency: minimum count of a character in the training data to be in the vocabulary.
    lowercase: whether to lowercase the text.
    normalize: Unicode normalization form of the text; null leaves it unchanged.
    """

    name = "character"

    def __init__(
        self,
        *,
        vocab_size: PositiveInt | None = None,
        min_frequency: PositiveInt = 1,
        lowercase: bool = False,
        normalize: Form | None = "nfc",
    ) -> None:
        super().__init__(vocab_size=vocab_size, min_frequency=min_frequency, lowercase=lowercase, normalize=normalize)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Split("", "isolated")

    def decoder(self) -> decoders.Decoder:
        return decoders.Fuse()


@register("tokenizer", "whitespace")
class Whitespace(WordLevel):
    """Whitespace-separated symbols, such as phonemes.

    Decoding puts one space between symbols, whatever the whitespace in the input.

    vocab_size: maximum vocabulary size, including special tokens; null is unlimited.
    min_frequency: minimum count of a symbol in the training data to be in the vocabulary.
    lowercase: whether to lowercase the text.
    normalize: Unicode normalization form of the text; null leaves it unchanged.
    """

    name = "whitespace"

    def __init__(
        self,
        *,
        vocab_size: PositiveInt | None = None,
        min_frequency: PositiveInt = 1,
        lowercase: bool = False,
        normalize: Form | None = "nfc",
    ) -> None:
        super().__init__(vocab_size=vocab_size, min_frequency=min_frequency, lowercase=lowercase, normalize=normalize)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.WhitespaceSplit()

    def decoder(self) -> None:
        return None

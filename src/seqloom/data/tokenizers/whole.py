"""Vocabularies of whole pieces: words, characters, symbols. What was not seen in training is unknown."""

from collections.abc import Iterator

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from seqloom.data.tokenizers.base import WORD_START, Cutter, Form, room, with_special
from seqloom.data.tokenizers.tokenizer import UNKNOWN_PIECE, Tokenizer
from seqloom.registry import Count, register


class Whole(Cutter):
    """A token is a whole piece of text; the most frequent ones are known, ties in the order of the alphabet."""

    def __init__(self, *, size: Count | None, min_count: Count, lowercase: bool, normalise: Form | None) -> None:
        super().__init__(lowercase=lowercase, normalise=normalise, size=size, min_count=min_count)
        self.size = size
        self.min_count = min_count

    def train(self, texts: Iterator[str]) -> Tokenizer:
        trainer = trainers.WordLevelTrainer(
            vocab_size=room(self.size), min_frequency=self.min_count, special_tokens=[], show_progress=False
        )
        learned = self._learned(models.WordLevel(), trainer, texts)
        return self._finished(models.WordLevel(with_special(learned["vocab"]), unk_token=UNKNOWN_PIECE))


@register("tokenizer", "word")
class Word(Whole):
    """Words, with punctuation apart.

    A word that follows a space begins with ▁, so text is put together as it was: ``Ein Hund.`` is ``▁Ein ▁Hund .``
    An unknown word shows as � behind a space. ▁ itself becomes a space.

    size: the most tokens the vocabulary may have, special symbols included; by default no limit.
    min_count: how often a word must occur to be known. With 1, no unknown word is met in training.
    lowercase: whether case is dropped.
    normalise: the Unicode form that text is brought to.
    """

    name = "word"
    unknown = f"{WORD_START}�"
    marks_words = True

    def __init__(
        self,
        *,
        size: Count | None = None,
        min_count: Count = 1,
        lowercase: bool = False,
        normalise: Form | None = "nfc",
    ) -> None:
        super().__init__(size=size, min_count=min_count, lowercase=lowercase, normalise=normalise)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(prepend_scheme="never"),
                pre_tokenizers.Split(Regex(r"\s+"), "isolated"),  # tabs and the like are no part of a word
                pre_tokenizers.Punctuation("isolated"),
            ]
        )

    def decoder(self) -> decoders.Decoder:
        return decoders.Metaspace(prepend_scheme="always")


@register("tokenizer", "character")
class Character(Whole):
    """Characters, spaces among them.

    A character is one code point: in the form ``nfc`` most letters with their accents are one.

    size: the most tokens the vocabulary may have, special symbols included; by default no limit.
    min_count: how often a character must occur to be known.
    lowercase: whether case is dropped.
    normalise: the Unicode form that text is brought to.
    """

    name = "character"

    def __init__(
        self,
        *,
        size: Count | None = None,
        min_count: Count = 1,
        lowercase: bool = False,
        normalise: Form | None = "nfc",
    ) -> None:
        super().__init__(size=size, min_count=min_count, lowercase=lowercase, normalise=normalise)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Split("", "isolated")

    def decoder(self) -> decoders.Decoder:
        return decoders.Fuse()


@register("tokenizer", "symbols")
class Symbols(Whole):
    """Symbols that are separated by spaces in the text, as phonemes are.

    Text is put together with one space between symbols, however many there were.

    size: the most tokens the vocabulary may have, special symbols included; by default no limit.
    min_count: how often a symbol must occur to be known.
    lowercase: whether case is dropped.
    normalise: the Unicode form that text is brought to.
    """

    name = "symbols"

    def __init__(
        self,
        *,
        size: Count | None = None,
        min_count: Count = 1,
        lowercase: bool = False,
        normalise: Form | None = "nfc",
    ) -> None:
        super().__init__(size=size, min_count=min_count, lowercase=lowercase, normalise=normalise)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.WhitespaceSplit()

    def decoder(self) -> None:
        return None

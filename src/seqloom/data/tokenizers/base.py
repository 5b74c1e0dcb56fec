"""The base class of tokenizer trainers: normalization, and special tokens in the vocabulary."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from seqloom.data.tokenizers.tokenizer import SPECIAL_TOKENS, Tokenizer
from seqloom.errors import ConfigError

Form = Literal["nfc", "nfkc", "nfd", "nfkd"]
FORMS = {
    "nfc": normalizers.NFC,
    "nfkc": normalizers.NFKC,
    "nfd": normalizers.NFD,
    "nfkd": normalizers.NFKD,
}
UNLIMITED = 2**31
WORD_START = "▁"


class TokenizerTrainer(ABC):
    """An untrained tokenizer: ``train`` returns the trained ``Tokenizer``.

    A subclass defines how text is split into pieces (``pre_tokenizer``), how pieces are joined (``decoder``), and how
    the model is trained. The base class handles normalization and special tokens.
    """

    name: ClassVar[str]
    unk_text: ClassVar[str] = "�"
    marks_words: ClassVar[bool] = False

    def __init__(self, *, lowercase: bool, normalize: Form | None, **options: Any) -> None:
        self.lowercase = lowercase
        self.normalize = normalize
        self.spec = {"name": self.name, "lowercase": lowercase, "normalize": normalize, **options}

    @abstractmethod
    def train(self, texts: Iterator[str]) -> Tokenizer:
        """Train a tokenizer on texts, which are read once and not kept."""

    @abstractmethod
    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer | None:
        """Splits text into pieces; no token crosses a piece boundary."""

    @abstractmethod
    def decoder(self) -> decoders.Decoder | None:
        """Joins tokens into text; None joins them with spaces."""

    def normalizer(self) -> normalizers.Normalizer:
        """Normalizes text before it is split."""
        steps: list[normalizers.Normalizer] = []
        if self.normalize is not None:
            steps.append(FORMS[self.normalize]())
        if self.lowercase:
            steps.append(normalizers.Lowercase())
        if self.marks_words:  # so that the first word gets the same token as elsewhere; decoding removes one space
            steps.append(normalizers.Prepend(" "))
        return normalizers.Sequence(steps)

    def _wrap(self, model: models.Model) -> library.Tokenizer:
        """Wrap a model of the library in this tokenizer's normalizer, pre-tokenizer and decoder."""
        tokenizer = library.Tokenizer(model)
        tokenizer.normalizer = self.normalizer()
        pre_tokenizer, decoder = self.pre_tokenizer(), self.decoder()
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        if decoder is not None:
            tokenizer.decoder = decoder
        return tokenizer

    def _train_model(self, model: models.Model, trainer: trainers.Trainer, texts: Iterator[str]) -> dict[str, Any]:
        """Train a model of the library and return it as plain data.

        The trainer gets no special tokens: the library would make them added tokens, which it searches for in text.
        """
        tokenizer = self._wrap(model)
        tokenizer.train_from_iterator(texts, trainer)
        trained: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
        return trained

    def _build(self, model: models.Model) -> Tokenizer:
        """The trained tokenizer of a trained model."""
        return Tokenizer(self._wrap(model), spec=self.spec, unk_text=self.unk_text)


def add_special_tokens(vocabulary: dict[str, int]) -> dict[str, int]:
    """A learned vocabulary with the special tokens before its pieces, whose order is kept."""
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    return {**SPECIAL_TOKENS, **{piece: id_ for id_, piece in enumerate(pieces, len(SPECIAL_TOKENS))}}


def max_pieces(vocab_size: int | None) -> int:
    """Maximum number of learned pieces in a vocabulary of ``vocab_size``, which includes the special tokens."""
    if vocab_size is None:
        return UNLIMITED
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ConfigError(
            f"vocab_size={vocab_size} is invalid: it must be greater than {len(SPECIAL_TOKENS)}, the number of "
            "special tokens"
        )
    return vocab_size - len(SPECIAL_TOKENS)

"""What every kind of tokenizer shares: its normalisation, and how its vocabulary gets the special symbols."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from seqloom.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from seqloom.errors import OptionError

Form = Literal["nfc", "nfkc", "nfd", "nfkd"]
FORMS = {
    "nfc": normalizers.NFC,
    "nfkc": normalizers.NFKC,
    "nfd": normalizers.NFD,
    "nfkd": normalizers.NFKD,
}
UNLIMITED = 2**31
WORD_START = "▁"


class Cutter(ABC):
    """A kind of tokenizer, not trained yet: ``train`` gives the ``Tokenizer``.

    A kind says how text is cut into pieces (``pre_tokenizer``), put together again (``decoder``), and how its model
    is trained; the base does normalisation and special symbols.
    """

    name: ClassVar[str]
    unknown: ClassVar[str] = "�"
    marks_words: ClassVar[bool] = False

    def __init__(self, *, lowercase: bool, normalise: Form | None, **options: Any) -> None:
        self.lowercase = lowercase
        self.normalise = normalise
        self.spec = {"name": self.name, "lowercase": lowercase, "normalise": normalise, **options}

    @abstractmethod
    def train(self, texts: Iterator[str]) -> Tokenizer:
        """The tokenizer that these texts give; they are read once and not kept."""

    @abstractmethod
    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer | None:
        """How text falls into pieces that no token crosses."""

    @abstractmethod
    def decoder(self) -> decoders.Decoder | None:
        """How pieces become text; None joins them by spaces."""

    def normalizer(self) -> normalizers.Normalizer:
        """What happens to text before it is cut."""
        steps: list[normalizers.Normalizer] = []
        if self.normalise is not None:
            steps.append(FORMS[self.normalise]())
        if self.lowercase:
            steps.append(normalizers.Lowercase())
        if self.marks_words:  # a first word looks like any other; one space in front also keeps the text's own exact
            steps.append(normalizers.Prepend(" "))
        return normalizers.Sequence(steps)

    def _around(self, model: models.Model) -> library.Tokenizer:
        """A model of the library with this kind's normalisation, cutting and decoding around it."""
        tokenizer = library.Tokenizer(model)
        tokenizer.normalizer = self.normalizer()
        pre_tokenizer, decoder = self.pre_tokenizer(), self.decoder()
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        if decoder is not None:
            tokenizer.decoder = decoder
        return tokenizer

    def _learned(self, model: models.Model, trainer: trainers.Trainer, texts: Iterator[str]) -> dict[str, Any]:
        """The model as plain data, after training.

        The trainer knows no special symbols: it would make them added tokens, which the library looks for in text.
        """
        tokenizer = self._around(model)
        tokenizer.train_from_iterator(texts, trainer)
        learned: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
        return learned

    def _finished(self, model: models.Model) -> Tokenizer:
        return Tokenizer(self._around(model), spec=self.spec, unknown=self.unknown)


def with_special(vocabulary: dict[str, int]) -> dict[str, int]:
    """A learned vocabulary, pieces in the order of their ids, behind the special symbols."""
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    return {**SPECIAL, **{piece: id_ for id_, piece in enumerate(pieces, len(SPECIAL))}}


def room(size: int | None) -> int:
    """How many pieces a vocabulary of ``size`` has room for beside the special symbols."""
    if size is None:
        return UNLIMITED
    if size <= len(SPECIAL):
        raise OptionError(f"size={size} leaves no room: {len(SPECIAL)} are special symbols; take more")
    return size - len(SPECIAL)

"""Tokenized text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.batch import EOS
from seqloom.data.fields.base import Field
from seqloom.data.pad import Array
from seqloom.data.texts import TextStatistics
from seqloom.data.tokenizers import Tokenizer, TokenizerTrainer
from seqloom.registry import Spec, build, register


@register("field", "text")
class Text(Field):
    """Text as a sequence of token ids, with EOS at the end of targets.

    tokenizer: tokenizer to train on the text (seqloom parts tokenizer).
    end: whether to append EOS to each text.
    """

    def __init__(self, *, tokenizer: Spec = "bpe", end: bool = False) -> None:
        self.trainer: TokenizerTrainer = build("tokenizer", tokenizer)
        self._tokenizer: Tokenizer | None = None
        self.end = end
        self.end_steps = int(end)
        if self.trainer.lowercase:
            self.metric_options = {"lowercase": True}

    @property
    def tokenizer(self) -> Tokenizer:
        """The trained tokenizer; the field must be fitted first."""
        assert self._tokenizer is not None, "the field must be fitted before it is used"
        return self._tokenizer

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The smallest integer type that can hold all token ids."""
        return np.dtype(np.uint16 if self.size <= 1 << 16 else np.int32)

    @property
    def size(self) -> int:
        """Vocabulary size."""
        return len(self.tokenizer)

    def metrics(self, values: Sequence[str]) -> tuple[str, ...]:
        """Default metrics, chosen by the text and its tokenizer."""
        return TextStatistics.of(values).metrics(self.trainer.name)

    def fit(self, values: Iterable[str]) -> None:
        """Train the tokenizer."""
        self._tokenizer = self.trainer.train(iter(values))

    def encode(self, values: Sequence[str], examples: Sequence[Mapping[str, Any]] = ()) -> list[Array]:
        """The token ids of each text."""
        suffix = [EOS] if self.end else []
        return [np.array(ids + suffix, self.dtype) for ids in self.tokenizer.encode(values)]

    def decode(self, row: Array, example: Mapping[str, Any] | None = None) -> str:
        """The text of a row of token ids, without special tokens."""
        return self.tokenizer.decode(row.tolist())

    def show(self, row: Array) -> list[str]:
        """The tokens."""
        return self.tokenizer.tokens(row.tolist())

    def state(self) -> dict[str, Any]:
        """The trained tokenizer."""
        return self.tokenizer.to_json()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load the trained tokenizer."""
        self._tokenizer = Tokenizer.from_json(state)

    def same(self, other: Field) -> bool:
        """Whether both tokenize every text identically, however their tokenizers were trained."""
        return isinstance(other, Text) and self.tokenizer.same_tokens(other.tokenizer)

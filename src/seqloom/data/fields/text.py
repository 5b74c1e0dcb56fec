"""Text, cut into tokens."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.batch import END
from seqloom.data.fields.base import Field
from seqloom.data.pad import Array
from seqloom.data.texts import Kind
from seqloom.data.tokenizers import Cutter, Tokenizer
from seqloom.registry import Spec, build, register


@register("field", "text")
class Text(Field):
    """Text as token ids; a target ends in END.

    tokenizer: cuts it (seqloom parts tokenizer).
    end: whether END is added to every text.
    """

    def __init__(self, *, tokenizer: Spec = "bpe", end: bool = False) -> None:
        self.cutter: Cutter = build("tokenizer", tokenizer)
        self._tokenizer: Tokenizer | None = None
        self.end = end
        self.end_steps = int(end)
        if self.cutter.lowercase:
            self.metric_options = {"lowercase": True}

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts the text, once the field is fitted."""
        assert self._tokenizer is not None, "a field is fitted before it is used"
        return self._tokenizer

    @property
    def dtype(self) -> "np.dtype[Any]":
        """As few bytes as the vocabulary needs."""
        return np.dtype(np.uint16 if self.size <= 1 << 16 else np.int32)

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.tokenizer)

    def metrics(self, values: Sequence[str]) -> tuple[str, ...]:
        """By the kind of text and its tokenizer."""
        return Kind.of(values).metrics(self.cutter.name)

    def fit(self, values: Iterable[str]) -> None:
        """Train the tokenizer."""
        self._tokenizer = self.cutter.train(iter(values))

    def encode(self, values: Sequence[str], examples: Sequence[Mapping[str, Any]] = ()) -> list[Array]:
        """The ids of every text."""
        ending = [END] if self.end else []
        return [np.array(ids + ending, self.dtype) for ids in self.tokenizer.encode(values)]

    def decode(self, row: Array, example: Mapping[str, Any] | None = None) -> str:
        """The text of a row up to its END."""
        return self.tokenizer.decode(row.tolist())

    def show(self, row: Array) -> list[str]:
        """The tokens."""
        return self.tokenizer.tokens(row.tolist())

    def state(self) -> dict[str, Any]:
        """The trained tokenizer."""
        return self.tokenizer.to_json()

    def restore(self, state: Mapping[str, Any]) -> None:
        """The tokenizer again."""
        self._tokenizer = Tokenizer.from_json(state)

    def same(self, other: Field) -> bool:
        """Whether both cut every text alike, however their tokenizers were made."""
        return isinstance(other, Text) and self.tokenizer.same_tokens(other.tokenizer)

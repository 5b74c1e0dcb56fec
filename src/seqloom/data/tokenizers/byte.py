"""The bytes of UTF-8 as tokens."""

from collections.abc import Iterator

from tokenizers import decoders, models, pre_tokenizers

from seqloom.data.tokenizers.base import Cutter, Form
from seqloom.data.tokenizers.tokenizer import BYTES, SPECIAL, Tokenizer
from seqloom.registry import register


@register("tokenizer", "byte")
class Byte(Cutter):
    """The bytes of UTF-8: 260 tokens, and no text is unknown.

    Byte b has the id b + 4, behind the special symbols. Bytes that make no character are decoded as �.

    lowercase: whether case is dropped.
    normalise: the Unicode form that text is brought to.
    """

    name = "byte"

    def __init__(self, *, lowercase: bool = False, normalise: Form | None = "nfc") -> None:
        super().__init__(lowercase=lowercase, normalise=normalise)

    def train(self, texts: Iterator[str]) -> Tokenizer:
        """There is nothing to learn: the texts are not read."""
        vocabulary = {**SPECIAL, **{character: len(SPECIAL) + byte for byte, character in enumerate(BYTES)}}
        return self._finished(models.BPE(vocabulary, []))  # without merges, every character of BYTES is a token

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def decoder(self) -> decoders.Decoder:
        return decoders.ByteLevel()

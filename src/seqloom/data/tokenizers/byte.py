"""Byte-level tokenization: the UTF-8 bytes of text as tokens."""

from collections.abc import Iterator

from tokenizers import decoders, models, pre_tokenizers

from seqloom.data.tokenizers.base import Form, TokenizerTrainer
from seqloom.data.tokenizers.tokenizer import BYTES, SPECIAL_TOKENS, Tokenizer
from seqloom.registry import register


@register("tokenizer", "byte")
class Byte(TokenizerTrainer):
    """UTF-8 bytes: a fixed vocabulary of 260 tokens, without out-of-vocabulary text.

    Byte b has the id b + 4, after the special tokens. Invalid UTF-8 is decoded as �.

    lowercase: whether to lowercase the text.
    normalize: Unicode normalization form of the text; null leaves it unchanged.
    """

    name = "byte"

    def __init__(self, *, lowercase: bool = False, normalize: Form | None = "nfc") -> None:
        super().__init__(lowercase=lowercase, normalize=normalize)

    def train(self, texts: Iterator[str]) -> Tokenizer:
        """Build the tokenizer; there is nothing to train, so the texts are not read."""
        vocabulary = {
            **SPECIAL_TOKENS,
            **{character: len(SPECIAL_TOKENS) + byte for byte, character in enumerate(BYTES)},
        }
        return self._build(models.BPE(vocabulary, []))  # without merges, every character of BYTES is a token

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def decoder(self) -> decoders.Decoder:
        return decoders.ByteLevel()

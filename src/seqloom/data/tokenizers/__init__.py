"""Tokenizers: they split text into tokens and put it together again, all through the ``tokenizers`` library."""

from seqloom.data.tokenizers.base import TokenizerTrainer
from seqloom.data.tokenizers.tokenizer import Tokenizer

__all__ = ["Tokenizer", "TokenizerTrainer"]

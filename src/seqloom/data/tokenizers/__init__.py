"""Tokenizers: how text is cut into tokens and put together again, each kind through the ``tokenizers`` library."""

from seqloom.data.tokenizers.base import Cutter
from seqloom.data.tokenizers.tokenizer import Tokenizer

__all__ = ["Cutter", "Tokenizer"]

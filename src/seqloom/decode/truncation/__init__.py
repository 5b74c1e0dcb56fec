"""Truncations: ways to draw only from some of the tokens, each in a file of its own."""

from seqloom.decode.truncation.base import Truncation

__all__ = ["Truncation"]

"""Truncations: restrictions of the tokens that sampling draws from, one per file."""

from seqloom.decode.truncation.base import Truncation

__all__ = ["Truncation"]

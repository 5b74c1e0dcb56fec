"""Encoders: the source in its context."""

from seqloom.models.encoders.base import Encoded, Encoder

__all__ = ["Encoded", "Encoder"]

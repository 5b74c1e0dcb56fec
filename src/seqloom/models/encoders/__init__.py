"""Encoders: from the embedded source to contextual states."""

from seqloom.models.encoders.base import Encoder, EncoderOutput

__all__ = ["Encoder", "EncoderOutput"]

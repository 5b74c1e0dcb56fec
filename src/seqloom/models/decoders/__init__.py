"""Decoders: from the fed tokens and the memory to features, step by step."""

from seqloom.models.decoders.base import Decoder, DecoderInputSizes

__all__ = ["Decoder", "DecoderInputSizes"]

"""Decoders: the target, one step after another."""

from seqloom.models.decoders.base import Decoder, Surroundings

__all__ = ["Decoder", "Surroundings"]

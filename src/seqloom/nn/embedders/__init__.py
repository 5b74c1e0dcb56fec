"""Embedders: raw input to vectors."""

from seqloom.nn.embedders.base import Embedder

__all__ = ["Embedder"]

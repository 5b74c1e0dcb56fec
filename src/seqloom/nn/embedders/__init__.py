"""Embedders: raw input as vectors."""

from seqloom.nn.embedders.base import Embedder

__all__ = ["Embedder"]

"""Attention: a score × a normaliser, each in a file of its own, and the layer that joins them."""

from seqloom.nn.attention.base import Normaliser, Score
from seqloom.nn.attention.layer import Attention

__all__ = ["Attention", "Normaliser", "Score"]

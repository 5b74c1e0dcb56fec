"""Attention: score functions and normalizers, one per file, and the layer that combines them."""

from seqloom.nn.attention.base import Normalizer, ScoreFunction, StatefulPart
from seqloom.nn.attention.layer import Attention

__all__ = ["Attention", "Normalizer", "ScoreFunction", "StatefulPart"]

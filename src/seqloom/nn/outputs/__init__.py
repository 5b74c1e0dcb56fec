"""Outputs: what goes out, and how it is judged."""

from seqloom.nn.outputs.base import Loss, Output

__all__ = ["Loss", "Output"]

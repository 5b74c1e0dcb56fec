"""Outputs: what comes out of a decoder, its loss, and how it is fed back."""

from seqloom.nn.outputs.base import Categorical, Loss, Output

__all__ = ["Categorical", "Loss", "Output"]

"""Outputs: the distribution over the next token or value, its loss, and how it is fed back to the decoder."""

from seqloom.nn.outputs.base import Categorical, Loss, Output

__all__ = ["Categorical", "Loss", "Output"]

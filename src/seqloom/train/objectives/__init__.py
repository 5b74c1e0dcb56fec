"""Training objectives: the loss of a batch."""

from seqloom.train.objectives.base import Objective

__all__ = ["Objective"]

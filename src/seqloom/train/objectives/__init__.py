"""Objectives: how a batch becomes a loss."""

from seqloom.train.objectives.base import Objective

__all__ = ["Objective"]

"""Cells: one step of a recurrence each, in a file of its own."""

from seqloom.nn.cells.base import Cell

__all__ = ["Cell"]

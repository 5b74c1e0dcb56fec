"""Recurrent cells, one per file: each computes one time step of an RNN."""

from seqloom.nn.cells.base import Cell

__all__ = ["Cell"]

"""Batchers: they split a corpus into batches."""

from seqloom.data.batchers.base import Batcher, BatchSize
from seqloom.data.batchers.bucketed import Bucketed

__all__ = ["BatchSize", "Batcher", "Bucketed"]

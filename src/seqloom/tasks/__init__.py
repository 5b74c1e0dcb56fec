"""Tasks: built-in synthetic datasets, one per module."""

from seqloom.tasks.base import Pair, Part, Task

__all__ = ["Pair", "Part", "Task"]

"""Tasks: data that ships with seqloom or is made by it, each in a file of its own."""

from seqloom.tasks.base import Pair, Part, Task

__all__ = ["Pair", "Part", "Task"]

"""Sources: what comes in, as vectors."""

from seqloom.nn.sources.base import Source

__all__ = ["Source"]

"""Readers: they read examples from files, one module per file format."""

from seqloom.data.readers.base import Reader
from seqloom.data.readers.files import Files, examples_of, expand

__all__ = ["Files", "Reader", "examples_of", "expand"]

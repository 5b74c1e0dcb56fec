"""Search: how answers are found, written once against a protocol, for every model."""

from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.search import Search

__all__ = ["Hypothesis", "Search"]

"""Decoding strategies (here: searches), written once against a protocol that every model implements."""

from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.ensemble import Ensemble
from seqloom.decode.grammar import TokenGrammar
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.search import Search

__all__ = ["Ensemble", "Hypothesis", "Search", "TokenConstraints", "TokenGrammar"]

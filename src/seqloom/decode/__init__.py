"""Search: how answers are found, written once against a protocol, for every model."""

from seqloom.decode.ensemble import Ensemble
from seqloom.decode.grammar import TokenGrammar
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.masks import Masks
from seqloom.decode.search import Search

__all__ = ["Ensemble", "Hypothesis", "Masks", "Search", "TokenGrammar"]

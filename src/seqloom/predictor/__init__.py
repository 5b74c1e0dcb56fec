"""From values to values: a network with its fields answers examples under constraints, and scores targets."""

from seqloom.predictor.answer import Answer, Score, Words
from seqloom.predictor.constraints import Constraints
from seqloom.predictor.predictor import Predictor

__all__ = ["Answer", "Constraints", "Predictor", "Score", "Words"]

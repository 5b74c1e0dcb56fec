"""From text to text: a network with its tokenizers answers sources under constraints, and scores targets."""

from seqloom.predictor.answer import Answer, Score, Words
from seqloom.predictor.constraints import Constraints
from seqloom.predictor.predictor import Predictor

__all__ = ["Answer", "Constraints", "Predictor", "Score", "Words"]

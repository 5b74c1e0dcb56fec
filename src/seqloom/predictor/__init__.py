"""From values to values: a network with its fields predicts outputs, under constraints, and scores targets."""

from seqloom.predictor.constraints import Constraints
from seqloom.predictor.prediction import Prediction, TargetScore, Words
from seqloom.predictor.predictor import Predictor

__all__ = ["Constraints", "Prediction", "Predictor", "TargetScore", "Words"]

"""Metrics: each score with the signature that reproduces it, and the reports that are made of them."""

from seqloom.metrics.base import Answers, Metric
from seqloom.metrics.comparison import Comparison, compare
from seqloom.metrics.report import Report, evaluate

__all__ = ["Answers", "Comparison", "Metric", "Report", "compare", "evaluate"]

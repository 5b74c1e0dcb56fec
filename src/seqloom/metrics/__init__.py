"""Metrics, each with a signature that makes its value reproducible, and reports and comparisons built on them."""

from seqloom.metrics.base import EvaluationData, Metric
from seqloom.metrics.comparison import Comparison, compare
from seqloom.metrics.report import Report, evaluate

__all__ = ["Comparison", "EvaluationData", "Metric", "Report", "compare", "evaluate"]

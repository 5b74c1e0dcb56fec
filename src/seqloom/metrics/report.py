"""``evaluate``: every metric with its confidence interval and signature, in total and by source length."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from seqloom.errors import ConfigError, unknown
from seqloom.metrics.base import EvaluationData, Metric
from seqloom.metrics.buckets import bucket_of, check_bounds, choose_bounds
from seqloom.metrics.resampling import bootstrap_totals


@dataclass(frozen=True)
class Result:
    """The value of one metric, its bootstrap confidence interval (None without bootstrap) and its signature."""

    metric: Metric
    value: float
    interval: tuple[float, float] | None
    signature: str


@dataclass(frozen=True)
class Bucket:
    """The examples with ``low`` to ``high`` source tokens (None: no upper bound), with the value of every metric."""

    low: int
    high: int | None
    examples: int
    values: tuple[float, ...]

    @property
    def label(self) -> str:
        """The lengths: "1–5", "6" or "21+"."""
        if self.high is None:
            return f"{self.low}+"
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(frozen=True)
class Report:
    """The result of an evaluation: ``report["bleu"].value``; print it with rich, or convert it with ``to_json``.

    truncated: number of outputs that were cut off before the model generated EOS.
    """

    examples: int
    truncated: int
    results: tuple[Result, ...]
    buckets: tuple[Bucket, ...]
    bootstrap: int
    confidence: float
    seed: int

    def __getitem__(self, name: str) -> Result:
        """The result of a metric, by label or by name."""
        by_name = {result.metric.name: result for result in reversed(self.results)}
        results = by_name | {result.metric.label: result for result in self.results}
        if name not in results:
            raise unknown("metric of this report:", name, results)
        return results[name]

    def to_json(self) -> dict[str, Any]:
        """Everything as data for ``json.dumps``; infinite values, and values of empty buckets, are None."""
        labels = [result.metric.label for result in self.results]
        return {
            "examples": self.examples,
            "truncated": self.truncated,
            "bootstrap": {"resamples": self.bootstrap, "confidence": self.confidence, "seed": self.seed},
            "metrics": {
                result.metric.label: {
                    "value": finite(result.value),
                    "interval": [finite(bound) for bound in result.interval] if result.interval else None,
                    "higher_is_better": result.metric.higher_is_better,
                    "signature": result.signature,
                }
                for result in self.results
            },
            "by_source_length": [
                {"low": b.low, "high": b.high, "examples": b.examples}
                | {"values": dict(zip(labels, map(finite, b.values), strict=True))}
                for b in self.buckets
            ],
        }

    def __rich__(self) -> RenderableType:
        """Tables of values and of values by source length, and the signatures."""
        heading = [f"{self.confidence:.0%} confidence interval"] if self.bootstrap else []
        values = plain_table("metric", "value", *heading, "")
        for result in self.results:
            digits = result.metric.digits
            interval = (
                [] if result.interval is None else [" – ".join(shown(bound, digits) for bound in result.interval)]
            )
            better = "higher is better" if result.metric.higher_is_better else "lower is better"
            values.add_row(result.metric.label, shown(result.value, digits), *interval, Text(better, style="dim"))
        lengths = plain_table("source tokens", *(bucket.label for bucket in self.buckets))
        lengths.add_row("examples", *(f"{bucket.examples}" for bucket in self.buckets), style="dim")
        for row, result in enumerate(self.results):
            by_length = (shown(bucket.values[row], result.metric.digits) for bucket in self.buckets)
            lengths.add_row(result.metric.label, *by_length)
        signatures = Text("\n".join(result.signature for result in self.results), style="dim")
        method = f"{self.examples} examples" + (
            f"; confidence intervals by bootstrap resampling ({self.bootstrap} resamples, seed {self.seed})"
            if self.bootstrap
            else ""
        )
        warning = [Text(truncation(self.truncated, self.examples) + "\n", style="bold")] if self.truncated else []
        return Group(values, "", *warning, lengths, "", Text(method, style="dim"), signatures)


def evaluate(
    data: EvaluationData,
    metrics: Sequence[Metric],
    *,
    buckets: Sequence[int] | None = None,
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 12345,
) -> Report:
    """Compute every metric, with confidence intervals and by source length.

    - ``buckets``: maximum source length of each bucket, such as 5, 10, 20; longer sources get one more bucket.
      None chooses the bounds from the data.
    - ``bootstrap``: number of bootstrap resamples for the confidence intervals; 0 omits the intervals
    - ``confidence``: confidence level of the intervals
    - ``seed``: seed of the resampling; the same seed gives the same intervals
    """
    check_metrics(metrics)
    if bootstrap < 0:
        raise ConfigError(
            f"bootstrap={bootstrap} is invalid: it must be at least 1, or 0 for no confidence intervals"
        )
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence={confidence} is invalid: it must be between 0 and 1, such as 0.95")
    lengths = np.asarray(data.source_lengths)
    bounds = choose_bounds(lengths) if buckets is None else check_bounds(buckets)
    bucket = bucket_of(lengths, bounds)
    used = len(bounds) + int(bool((bucket == len(bounds)).any()))
    lows, highs = [min(1, int(lengths.min())), *(bound + 1 for bound in bounds)], [*bounds, None]
    sizes = np.bincount(bucket, minlength=used)

    results, by_bucket = [], []
    for metric in metrics:
        statistics = metric.statistics(data)
        interval = None
        if bootstrap:
            values = metric.value(bootstrap_totals(statistics, bootstrap, seed=seed))
            with np.errstate(invalid="ignore"):  # infinite perplexities may give NaN
                low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
            interval = float(low), float(high)
        results.append(Result(metric, float(metric.value(statistics.sum(0))), interval, metric.signature(data)))
        inside = [statistics[bucket == i] for i in range(used)]
        by_bucket.append([float(metric.value(rows.sum(0))) if len(rows) else math.nan for rows in inside])
    table = [Bucket(lows[i], highs[i], int(sizes[i]), tuple(values[i] for values in by_bucket)) for i in range(used)]
    return Report(len(data), data.truncated_count, tuple(results), tuple(table), bootstrap, confidence, seed)


def truncation(count: int, examples: int) -> str:
    """The warning about truncated outputs."""
    return (
        f"{count:,} of {examples:,} outputs were truncated: they reached the maximum length (--max-length, "
        f"--max-length-ratio), or the constraints allowed no further token"
    )


def check_metrics(metrics: Sequence[Metric]) -> None:
    """Raise if there are no metrics, or if one occurs twice."""
    labels = [metric.label for metric in metrics]
    if not labels:
        raise ConfigError("metrics is empty: give at least one, such as exact_match or bleu")
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"metric {label!r} is given {labels.count(label)} times: give it once")


def finite(value: float) -> float | None:
    """The number, or None if JSON can't represent it (infinite or NaN)."""
    return value if math.isfinite(value) else None


def shown(value: float, digits: int) -> str:
    """A value formatted for a table."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def plain_table(*headings: str) -> Table:
    """A table without borders; the first column is left-aligned, the others are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, heading in enumerate(headings):
        # Text, not markup: the name of a run may contain brackets.
        table.add_column(Text(heading), justify="right" if number else "left", overflow="fold")
    return table

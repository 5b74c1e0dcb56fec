"""``evaluate``: every metric with its confidence interval and signature, and by the length of the source."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from seqloom.errors import OptionError, unknown
from seqloom.metrics.base import Answers, Metric
from seqloom.metrics.buckets import bucket_of, check_bounds, choose_bounds
from seqloom.metrics.resampling import bootstrap_totals


@dataclass(frozen=True)
class Result:
    """One metric's value, its bootstrap confidence interval if there is one, and its signature."""

    metric: Metric
    value: float
    interval: tuple[float, float] | None
    signature: str


@dataclass(frozen=True)
class Bucket:
    """The examples whose sources have ``low`` to ``high`` tokens (None: any more), with a value for every metric."""

    low: int
    high: int | None
    examples: int
    values: tuple[float, ...]

    @property
    def label(self) -> str:
        """The lengths, as "1–5", "6" or "21+"."""
        if self.high is None:
            return f"{self.low}+"
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(frozen=True)
class Report:
    """What an evaluation found: to print with rich, to keep as JSON, to ask: ``report["bleu"].value``.

    truncated: how many outputs ended before the model ended them.
    """

    examples: int
    truncated: int
    results: tuple[Result, ...]
    buckets: tuple[Bucket, ...]
    bootstrap: int
    confidence: float
    seed: int

    def __getitem__(self, name: str) -> Result:
        """The result of a metric by its label, or by its name alone."""
        by_name = {result.metric.name: result for result in reversed(self.results)}
        found = by_name | {result.metric.label: result for result in self.results}
        if name not in found:
            raise unknown("metric of this report:", name, found)
        return found[name]

    def to_json(self) -> dict[str, Any]:
        """All of it as what ``json.dumps`` takes; what is no number there (infinite, of no examples) is None."""
        labels = [result.metric.label for result in self.results]
        return {
            "examples": self.examples,
            "truncated": self.truncated,
            "bootstrap": {"resamples": self.bootstrap, "confidence": self.confidence, "seed": self.seed},
            "metrics": {
                result.metric.label: {
                    "value": finite(result.value),
                    "interval": [finite(end) for end in result.interval] if result.interval else None,
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
        """Values, lengths and signatures, for a console."""
        values = plain_table("metric", "value", *([f"{self.confidence:.0%} interval"] if self.bootstrap else []), "")
        for result in self.results:
            digits = result.metric.digits
            interval = [] if result.interval is None else [" – ".join(shown(end, digits) for end in result.interval)]
            better = "higher is better" if result.metric.higher_is_better else "lower is better"
            values.add_row(result.metric.label, shown(result.value, digits), *interval, Text(better, style="dim"))
        lengths = plain_table("source tokens", *(bucket.label for bucket in self.buckets))
        lengths.add_row("examples", *(f"{bucket.examples}" for bucket in self.buckets), style="dim")
        for row, result in enumerate(self.results):
            by_length = (shown(bucket.values[row], result.metric.digits) for bucket in self.buckets)
            lengths.add_row(result.metric.label, *by_length)
        signatures = Text("\n".join(result.signature for result in self.results), style="dim")
        made = f"{self.examples} examples" + (
            f"; intervals from {self.bootstrap} bootstrap resamples, seed {self.seed}" if self.bootstrap else ""
        )
        warning = [Text(truncation(self.truncated, self.examples) + "\n", style="bold")] if self.truncated else []
        return Group(values, "", *warning, lengths, "", Text(made, style="dim"), signatures)


def evaluate(
    answers: Answers,
    metrics: Sequence[Metric],
    *,
    buckets: Sequence[int] | None = None,
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 12345,
) -> Report:
    """Judge answers by every metric.

    - ``buckets``: the greatest source length of each bucket, as 5, 10, 20; what is longer has a bucket of its own.
      By default they are chosen from the data.
    - ``bootstrap``: from how many resamples of the examples the confidence intervals are; 0 for none
    - ``confidence``: how much of the resamples' values an interval holds
    - ``seed``: the same seed gives the same intervals
    """
    check_metrics(metrics)
    if bootstrap < 0:
        raise OptionError(f"bootstrap={bootstrap}: a number of resamples, or 0 for no intervals")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence={confidence} is to be between 0 and 1, as 0.95")
    lengths = np.asarray(answers.source_lengths)
    bounds = choose_bounds(lengths) if buckets is None else check_bounds(buckets)
    where = bucket_of(lengths, bounds)
    used = len(bounds) + int(bool((where == len(bounds)).any()))
    lows, highs = [min(1, int(lengths.min())), *(bound + 1 for bound in bounds)], [*bounds, None]
    sizes = np.bincount(where, minlength=used)

    results, by_bucket = [], []
    for metric in metrics:
        statistics = metric.statistics(answers)
        interval = None
        if bootstrap:
            values = metric.value(bootstrap_totals(statistics, bootstrap, seed=seed))
            with np.errstate(invalid="ignore"):  # of infinite perplexities an end may be NaN
                low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
            interval = float(low), float(high)
        results.append(Result(metric, float(metric.value(statistics.sum(0))), interval, metric.signature(answers)))
        inside = [statistics[where == i] for i in range(used)]
        by_bucket.append([float(metric.value(rows.sum(0))) if len(rows) else math.nan for rows in inside])
    table = [Bucket(lows[i], highs[i], int(sizes[i]), tuple(values[i] for values in by_bucket)) for i in range(used)]
    return Report(len(answers), answers.truncated_count, tuple(results), tuple(table), bootstrap, confidence, seed)


def truncation(count: int, examples: int) -> str:
    """What to say about outputs that were truncated."""
    return (
        f"{count:,} of {examples:,} outputs were truncated: they reached the maximum length (--max-length, "
        f"--max-ratio), or the constraints allowed no further token"
    )


def check_metrics(metrics: Sequence[Metric]) -> None:
    """Refuse no metrics, and the same one twice."""
    labels = [metric.label for metric in metrics]
    if not labels:
        raise OptionError("no metric to judge by: name at least one, as exact or bleu")
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"metric {label!r} is there {labels.count(label)} times: once is enough")


def finite(value: float) -> float | None:
    """A number that JSON knows."""
    return value if math.isfinite(value) else None


def shown(value: float, digits: int) -> str:
    """A value for a table."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def plain_table(*headings: str) -> Table:
    """A table without lines, the first column to the left and the numbers to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, heading in enumerate(headings):
        # A heading is shown as it is: the name of a run may have brackets.
        table.add_column(Text(heading), justify="right" if number else "left", overflow="fold")
    return table

"""``compare``: two systems on the same examples, with a paired test of statistical significance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from seqloom.errors import ConfigError, InputError
from seqloom.metrics.base import EvaluationData, Floats, Metric
from seqloom.metrics.report import check_metrics, finite, plain_table, shown, truncation
from seqloom.metrics.resampling import exchanged_totals

LEVEL = 0.05
"""Significance level: a difference with a smaller p-value is significant."""


@dataclass(frozen=True)
class Difference:
    """The values of one metric for both systems, with the p-value of their difference."""

    metric: Metric
    a: float
    b: float
    p_value: float
    signature: str

    @property
    def delta(self) -> float:
        """Value of the second system minus value of the first."""
        return self.b - self.a

    @property
    def better(self) -> int | None:
        """The system that is significantly better, 0 or 1; None if the difference is not significant."""
        if not self.p_value < LEVEL:
            return None
        return int((self.delta > 0) == self.metric.higher_is_better)


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; print it with rich, or convert it with ``to_json``.

    truncated: number of outputs of each system that were cut off before the model generated EOS.
    """

    names: tuple[str, str]
    examples: int
    truncated: tuple[int, int]
    differences: tuple[Difference, ...]
    trials: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Everything as data for ``json.dumps``."""
        return {
            "names": list(self.names),
            "examples": self.examples,
            "truncated": list(self.truncated),
            "test": {"name": "paired approximate randomization", "trials": self.trials, "seed": self.seed},
            "metrics": {
                d.metric.label: {
                    "values": [finite(d.a), finite(d.b)],
                    "difference": finite(d.delta),
                    "p_value": finite(d.p_value),
                    "better": None if d.better is None else self.names[d.better],
                    "higher_is_better": d.metric.higher_is_better,
                    "signature": d.signature,
                }
                for d in self.differences
            },
        }

    def __rich__(self) -> RenderableType:
        """A table with one row per metric."""
        table = plain_table("metric", *self.names, "difference", "p-value", "better")
        for d in self.differences:
            digits = d.metric.digits
            p_value = "< 0.001" if d.p_value < 0.001 else shown(d.p_value, 3)
            better = (
                Text("not significant", style="dim") if d.better is None else Text(self.names[d.better], style="bold")
            )
            values = shown(d.a, digits), shown(d.b, digits), f"{d.delta:+.{digits}f}"
            table.add_row(d.metric.label, *values, p_value, better)
        method = (
            f"{self.examples} examples; p-values by paired approximate randomization "
            f"({self.trials} trials, seed {self.seed}); significant: p < {LEVEL}"
        )
        warnings = [
            Text(f"{name}: {truncation(count, self.examples)}", style="bold")
            for name, count in zip(self.names, self.truncated, strict=True)
            if count
        ]
        signatures = "\n".join(d.signature for d in self.differences)
        return Group(table, "", *warnings, Text(f"{method}\n{signatures}", style="dim"))


def compare(
    a: EvaluationData,
    b: EvaluationData,
    metrics: Sequence[Metric],
    *,
    names: tuple[str, str] = ("A", "B"),
    trials: int = 10_000,
    seed: int = 12345,
) -> Comparison:
    """Compare two systems with paired approximate randomization (Noreen 1989; Riezler and Maxwell 2005).

    Null hypothesis: the systems are equally good, so the two predictions for an example can be exchanged. Each of the
    ``trials`` exchanges the predictions for every example with probability ½, and
    p = (1 + trials whose difference is at least as large as the observed one) / (1 + trials).

    names: names of the systems in the result.
    trials: number of random permutations.
    seed: seed of the permutations; the same seed gives the same p-values.
    """
    check_metrics(metrics)
    if trials < 1:
        raise ConfigError(f"trials={trials} is invalid: it must be at least 1 (10000 is the default)")
    _check_same_examples(a, b)
    differences = []
    for metric in metrics:
        if metric.needs == "model" and not np.array_equal(np.asarray(a.tokens), np.asarray(b.tokens)):
            raise InputError(
                f"{metric.name} counts tokens, and the two models tokenize the references differently, so their "
                f"values can't be compared: remove {metric.name}"
            )
        rows_a, rows_b = metric.statistics(a), metric.statistics(b)
        value_a, value_b = (float(metric.value(rows.sum(0))) for rows in (rows_a, rows_b))
        p = _p_value(metric, rows_a, rows_b, observed=abs(value_a - value_b), trials=trials, seed=seed)
        differences.append(Difference(metric, value_a, value_b, p, metric.signature(a)))
    return Comparison(names, len(a), (a.truncated_count, b.truncated_count), tuple(differences), trials, seed)


def _p_value(metric: Metric, a: Floats, b: Floats, *, observed: float, trials: int, seed: int) -> float:
    if not math.isfinite(observed):  # an infinite perplexity can't be compared
        return math.nan
    exchanged_a, exchanged_b = exchanged_totals(a, b, trials, seed=seed)
    differences = np.abs(metric.value(exchanged_a) - metric.value(exchanged_b))
    # Sums in another order differ by rounding: a tolerance, so that equal differences count as equal.
    at_least_as_large = int((differences >= observed - 1e-9 * max(1.0, observed)).sum())
    return (1 + at_least_as_large) / (1 + trials)


def _check_same_examples(a: EvaluationData, b: EvaluationData) -> None:
    """Raise if the two systems were evaluated on different examples."""
    if len(a) != len(b):
        raise InputError(f"{len(a)} and {len(b)} examples can't be compared: use the same data for both systems")
    for field, left, right in (("sources", a.sources, b.sources), ("references", a.references, b.references)):
        for row, (one, other) in enumerate(zip(left, right, strict=True)):
            if one != other and list(one) != list(other):
                raise InputError(
                    f"the {field} of example {row} differ, {one!r} and {other!r}: use the same data for both systems"
                )

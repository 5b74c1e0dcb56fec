"""``compare``: two systems' answers to the same examples, and whether their difference may be chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from seqloom.errors import InputError, OptionError
from seqloom.metrics.base import Answers, Floats, Metric
from seqloom.metrics.report import check_metrics, finite, plain_table, shown, truncation
from seqloom.metrics.resampling import exchanged_totals

LEVEL = 0.05
"""A difference with a smaller p-value is called significant."""


@dataclass(frozen=True)
class Difference:
    """One metric of both systems, and how probable so great a difference is if they are equally good."""

    metric: Metric
    a: float
    b: float
    p_value: float
    signature: str

    @property
    def delta(self) -> float:
        """By how much the second is higher."""
        return self.b - self.a

    @property
    def better(self) -> int | None:
        """Which system is significantly better: 0, 1 or neither."""
        if not self.p_value < LEVEL:
            return None
        return int((self.delta > 0) == self.metric.higher_is_better)


@dataclass(frozen=True)
class Comparison:
    """What a comparison found: to print with rich, to keep as JSON.

    truncated: how many outputs of each system ended before the model ended them.
    """

    names: tuple[str, str]
    examples: int
    truncated: tuple[int, int]
    differences: tuple[Difference, ...]
    trials: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """All of it as what ``json.dumps`` takes."""
        return {
            "names": list(self.names),
            "examples": self.examples,
            "truncated": list(self.truncated),
            "test": {"name": "paired approximate randomisation", "trials": self.trials, "seed": self.seed},
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
        """A row for every metric, for a console."""
        table = plain_table("metric", *self.names, "difference", "p", "better")
        for d in self.differences:
            digits = d.metric.digits
            p = "< 0.001" if d.p_value < 0.001 else shown(d.p_value, 3)
            better = (
                Text("not significant", style="dim") if d.better is None else Text(self.names[d.better], style="bold")
            )
            table.add_row(d.metric.label, shown(d.a, digits), shown(d.b, digits), f"{d.delta:+.{digits}f}", p, better)
        made = f"{self.examples} examples; p by paired approximate randomisation, {self.trials} trials, seed "
        warnings = [
            Text(f"{name}: {truncation(count, self.examples)}", style="bold")
            for name, count in zip(self.names, self.truncated, strict=True)
            if count
        ]
        signatures = "\n".join(d.signature for d in self.differences)
        return Group(table, "", *warnings, Text(f"{made}{self.seed}\n{signatures}", style="dim"))


def compare(
    a: Answers,
    b: Answers,
    metrics: Sequence[Metric],
    *,
    names: tuple[str, str] = ("A", "B"),
    trials: int = 10_000,
    seed: int = 12345,
) -> Comparison:
    """Compare two systems by every metric, with a paired test (Noreen 1989; Riezler and Maxwell 2005).

    If the systems were equally good, it would not matter which of them gave which of the two answers to an example.
    So in each of the ``trials`` every pair of answers is exchanged or not by a fair coin, and
    p = (1 + trials with a difference at least as great as the real one) / (1 + trials).
    The same ``seed`` gives the same p; ``names`` are what to call the systems.
    """
    check_metrics(metrics)
    if trials < 1:
        raise OptionError(f"trials={trials}: at least one, and some thousands to be sure")
    _check_same_examples(a, b)
    differences = []
    for metric in metrics:
        if metric.needs == "model" and not np.array_equal(np.asarray(a.tokens), np.asarray(b.tokens)):
            raise InputError(
                f"{metric.name} counts tokens, and the two models cut the targets into different ones: "
                f"their values can't be compared; leave {metric.name} out"
            )
        rows_a, rows_b = metric.statistics(a), metric.statistics(b)
        value_a, value_b = (float(metric.value(rows.sum(0))) for rows in (rows_a, rows_b))
        p = _p_value(metric, rows_a, rows_b, real=abs(value_a - value_b), trials=trials, seed=seed)
        differences.append(Difference(metric, value_a, value_b, p, metric.signature(a)))
    return Comparison(names, len(a), (a.truncated_count, b.truncated_count), tuple(differences), trials, seed)


def _p_value(metric: Metric, a: Floats, b: Floats, *, real: float, trials: int, seed: int) -> float:
    if not math.isfinite(real):  # a perplexity beyond all bounds: nothing to compare by
        return math.nan
    exchanged_a, exchanged_b = exchanged_totals(a, b, trials, seed=seed)
    by_chance = np.abs(metric.value(exchanged_a) - metric.value(exchanged_b))
    # Sums in another order differ in their last digits, and what is equal must count as equal.
    as_great = int((by_chance >= real - 1e-9 * max(1.0, real)).sum())
    return (1 + as_great) / (1 + trials)


def _check_same_examples(a: Answers, b: Answers) -> None:
    """Refuse to compare answers to different questions."""
    if len(a) != len(b):
        raise InputError(f"{len(a)} and {len(b)} examples can't be compared: both systems must answer the same ones")
    for what, left, right in (("sources", a.sources, b.sources), ("references", a.references, b.references)):
        for row, (one, other) in enumerate(zip(left, right, strict=True)):
            if one != other and list(one) != list(other):
                raise InputError(
                    f"the {what} of example {row} differ, {one!r} and {other!r}: use the same data for both"
                )

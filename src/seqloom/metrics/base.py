"""``EvaluationData``, the only input of a metric, and ``Metric``, the base class of all metrics.

A metric is a function of sums: each example contributes one row of statistics, and the value is computed from the sum
of the rows. The value on any other selection of examples (a bucket, a bootstrap resample, a permutation of two
systems) is computed from sums of the same rows, so every prediction is processed only once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom import __version__
from seqloom.errors import InputError, ShapeError
from seqloom.registry import options

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """The predictions of a model with their references: one entry per example in every field.

    - ``hypotheses``: the predictions; None if only the model's probabilities are known
    - ``references``: one or more references per example
    - ``sources``: the sources; ``source_lengths``: their lengths in tokens
    - ``log_probs``: the log-probability of the first reference under teacher forcing, summed over its tokens
    - ``tokens``: number of tokens of the first reference, EOS included
    - ``correct``: how many of these tokens the model ranked first
    - ``truncated``: whether the output was cut off before the model generated EOS
    """

    hypotheses: Sequence[str] | None
    references: Sequence[Sequence[str]]
    sources: Sequence[str]
    source_lengths: NDArray[np.integer]
    log_probs: NDArray[np.floating] | None = None
    tokens: NDArray[np.integer] | None = None
    correct: NDArray[np.integer] | None = None
    truncated: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if len(self.references) == 0:
            raise InputError("there is nothing to evaluate: give at least one example")
        for field, column in vars(self).items():
            if column is not None and len(column) != len(self.references):
                raise ShapeError(
                    f"{len(column)} {field} for {len(self.references)} references: give one entry per example"
                )
        for row, references in enumerate(self.references):
            if isinstance(references, str):
                raise InputError(f"references of example {row} are the string {references!r}: give a list of strings")
            if len(references) == 0:
                raise InputError(f"example {row} has no reference: add one, or remove the example")

    def __len__(self) -> int:
        return len(self.references)

    @property
    def truncated_count(self) -> int:
        """Number of truncated outputs."""
        return 0 if self.truncated is None else int(self.truncated.sum())

    def pairs(self, metric: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Every hypothesis with its references; ``metric`` is the name for the error if there are no hypotheses."""
        if self.hypotheses is None:
            raise InputError(
                f"{metric} needs hypotheses, and there are none: generate them, or use loss or perplexity"
            )
        return zip(self.hypotheses, self.references, strict=True)

    def token_counts(self, which: Literal["log_probs", "correct"], metric: str) -> Floats:
        """Two columns per example: ``which``, and the number of tokens; ``metric`` is the name for errors."""
        column = self.log_probs if which == "log_probs" else self.correct
        if column is None or self.tokens is None:
            raise InputError(f"{metric} needs {which} and tokens of every example, which only a model can compute")
        return np.stack([column, self.tokens], axis=1).astype(np.float64)

    @property
    def reference_count(self) -> str:
        """Number of references per example, or "var" if it varies, as in sacreBLEU's signatures."""
        counts = {len(references) for references in self.references}
        return str(counts.pop()) if len(counts) == 1 else "var"


class Metric(ABC):
    """Base class of the metrics. Every option of a metric is an attribute of the same name.

    ``needs`` is the required input: "text" (hypotheses) or "model" (log-probabilities under teacher forcing).
    """

    name: ClassVar[str]
    needs: ClassVar[Literal["text", "model"]] = "text"
    higher_is_better: ClassVar[bool]
    digits: ClassVar[int] = 2

    @abstractmethod
    def statistics(self, data: EvaluationData) -> Floats:
        """One row of numbers per example, N × k; ``value`` needs only their sums over examples."""

    @abstractmethod
    def value(self, totals: Floats) -> Floats:
        """From sums of statistics, … × k, to values, …"""

    def score(self, data: EvaluationData) -> float:
        """The value on all examples."""
        return float(self.value(self.statistics(data).sum(0)))

    def signature(self, data: EvaluationData) -> str:
        """Everything needed to reproduce the value, in the format of sacreBLEU."""
        given = {option: getattr(self, option) for option in options(type(self))}
        fields = {"nrefs": data.reference_count, **given, "version": f"seqloom-{__version__}"}
        shown = {field: ("no", "yes")[v] if isinstance(v, bool) else v for field, v in fields.items()}
        return "|".join([self.name, *(f"{field}:{value}" for field, value in shown.items())])

    @property
    def label(self) -> str:
        """The name followed by all options that differ from their defaults: "bleu lowercase=True"."""
        known = options(type(self))
        given = {option: getattr(self, option) for option in known}
        return " ".join([self.name, *(f"{o}={v}" for o, v in given.items() if v != known[o].default)])


def rate(totals: Floats) -> Floats:
    """Percentage of two columns: 100 · first / second. 0 / 0 counts as 0, and x / 0 with x > 0 as 100."""
    part, whole = totals[..., 0], totals[..., 1]
    return 100 * np.where(whole > 0, part / np.where(whole > 0, whole, 1), part > 0)

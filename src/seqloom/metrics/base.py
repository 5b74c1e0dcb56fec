"""``Answers``, which is all that a metric looks at, and ``Metric``, which judges them.

A metric is a function of sums: each example gives a row of statistics, and the rows' sum gives the value. Whatever
asks for the value of some other choice of examples (a bucket, a bootstrap resample, a permutation of two systems)
adds up other rows and never judges an answer again.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom import __version__
from seqloom.errors import InputError, SizeError
from seqloom.registry import options

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answered to every example, and what the right answers are.

    - ``hypotheses``: the answers; None where only the model's probabilities were asked for
    - ``references``: one or more right answers for each
    - ``sources``: the questions; ``source_lengths``: their lengths in tokens
    - ``log_probs``: the log-probability of the first reference, teacher-forced and summed over its tokens
    - ``tokens``: how many tokens that is, END included
    - ``correct``: how many of them had the highest probability
    - ``truncated``: which outputs ended before the model would have ended them
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
        for what, column in vars(self).items():
            if column is not None and len(column) != len(self.references):
                raise SizeError(f"{len(column)} {what} for {len(self.references)} references: one for each")
        for row, references in enumerate(self.references):
            if isinstance(references, str):
                raise InputError(
                    f"references of example {row}: a list of texts is wanted, not the text {references!r}"
                )
            if len(references) == 0:
                raise InputError(f"example {row} has no reference: give it one, or leave it out")

    def __len__(self) -> int:
        return len(self.references)

    @property
    def truncated_count(self) -> int:
        """How many outputs are truncated."""
        return 0 if self.truncated is None else int(self.truncated.sum())

    def pairs(self, metric: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Every answer with its references, for the metric of that name."""
        if self.hypotheses is None:
            raise InputError(
                f"{metric} judges answers, and there are none: predict them, or choose loss or perplexity"
            )
        return zip(self.hypotheses, self.references, strict=True)

    def token_counts(self, which: Literal["log_probs", "correct"], metric: str) -> Floats:
        """Two columns, for the metric of that name: what teacher forcing gave for each example, and its tokens."""
        given = self.log_probs if which == "log_probs" else self.correct
        if given is None or self.tokens is None:
            raise InputError(f"{metric} needs {which} and tokens of every example, which only a model can give")
        return np.stack([given, self.tokens], axis=1).astype(np.float64)

    @property
    def reference_count(self) -> str:
        """How many references every example has, or "var", in sacreBLEU's word."""
        counts = {len(references) for references in self.references}
        return str(counts.pop()) if len(counts) == 1 else "var"


class Metric(ABC):
    """One way to judge answers. Every option of a metric is kept as an attribute of the same name.

    ``needs`` says what has to be there: answers as "text", or what a "model" gives by teacher forcing.
    """

    name: ClassVar[str]
    needs: ClassVar[Literal["text", "model"]] = "text"
    higher_is_better: ClassVar[bool]
    digits: ClassVar[int] = 2

    @abstractmethod
    def statistics(self, answers: Answers) -> Floats:
        """A row of numbers for every example, N × k, whose sums over examples are all that ``value`` needs."""

    @abstractmethod
    def value(self, totals: Floats) -> Floats:
        """From sums of statistics, … × k, to values, …"""

    def score(self, answers: Answers) -> float:
        """The value on all the answers."""
        return float(self.value(self.statistics(answers).sum(0)))

    def signature(self, answers: Answers) -> str:
        """All that it takes to get the same value again, written as sacreBLEU does."""
        given = {option: getattr(self, option) for option in options(type(self))}
        facts = {"nrefs": answers.reference_count, **given, "version": f"seqloom-{__version__}"}
        written = {fact: ("no", "yes")[v] if isinstance(v, bool) else v for fact, v in facts.items()}
        return "|".join([self.name, *(f"{fact}:{value}" for fact, value in written.items())])

    @property
    def label(self) -> str:
        """The name, with the options that are not at their defaults: "bleu lowercase=True"."""
        known = options(type(self))
        given = {option: getattr(self, option) for option in known}
        return " ".join([self.name, *(f"{o}={v}" for o, v in given.items() if v != known[o].default)])


def rate(totals: Floats) -> Floats:
    """Percent of two columns: 100 · first / second. Of nothing at all it is 0, of something in nothing 100."""
    part, whole = totals[..., 0], totals[..., 1]
    return 100 * np.where(whole > 0, part / np.where(whole > 0, whole, 1), part > 0)

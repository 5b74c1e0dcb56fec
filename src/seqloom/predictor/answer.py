"""``Answer``: one answer to one source, with all that speaks for it; ``Score``: what a model thinks of a target."""

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from seqloom.predictor.alignment import Links, joined, links, merged

DIGITS = 6
"""Of log-probabilities and weights in JSON."""


@dataclass(frozen=True, eq=False)
class Words:
    """An answer's attention by words.

    source, target: the words of both sides, in the order of the text.
    weights: one row per target word, one column per source word; None without attention. A row sums to what its
        tokens' rows sum to.
    """

    source: list[str]
    target: list[str]
    weights: Tensor | None = field(repr=False)

    @property
    def alignment(self) -> Links | None:
        """For every target word (source word, target word), where the weight is greatest; None without attention."""
        return None if self.weights is None else links(self.weights)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "source": self.source,
            "target": self.target,
            "alignment": self.alignment,
            "weights": _rounded_rows(self.weights),
        }


@dataclass(frozen=True, eq=False)
class Answer:
    """One answer to one source.

    text: a value of the target's field: for text, a text. tokens: the same as the model wrote it, END left out.
    log_prob: of the whole answer, END included; NaN if it was rolled out.
    token_log_probs: of each of its tokens, and of END.
    value: what the search compared, by its ``formula``.
    finished: False where the maximum length cut it off, or nothing was allowed to follow.
    truncated: whether the limits rather than the model made it what it is: it is not finished, or a beam had better
        beginnings that it had to stop at the maximum length.
    source_tokens: what the model read.
    weights: attention, one row per token written (END too), one column per source token; None without attention.
    word_numbers: for every source token, and for every token, the number of its word. A tokenizer that does not mark
        where words begin (characters, bytes, symbols) has a word for every token.
    """

    text: Any
    tokens: list[str]
    log_prob: float
    token_log_probs: list[float]
    value: float
    formula: str
    finished: bool
    truncated: bool
    source_tokens: list[str]
    weights: Tensor | None = field(repr=False)
    word_numbers: tuple[list[int], list[int]] = field(repr=False)

    @property
    def alignment(self) -> Links | None:
        """For every token but END (source token, token), where attention was greatest; None without attention."""
        return None if self.weights is None else links(self.weights[: len(self.tokens)])

    def words(self) -> Words:
        """Attention by words: summed over the tokens of a source word, averaged over those of a target word."""
        source, target = self.word_numbers
        return Words(
            source=joined(self.source_tokens, source),
            target=joined(self.tokens, target),
            weights=None if self.weights is None else merged(self.weights[: len(self.tokens)], target, source),
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data; the source's tokens are left out, being the same for all its answers."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "log_prob": _finite(self.log_prob),
            "token_log_probs": _rounded(self.token_log_probs),
            "value": _finite(self.value),
            "formula": self.formula,
            "finished": self.finished,
            "truncated": self.truncated,
            "alignment": self.alignment,
            "weights": _rounded_rows(self.weights),
        }


@dataclass(frozen=True)
class Score:
    """The model's log-probability of a given target, in sum and by token, END included.

    correct: how many of the tokens, END included, are the likeliest at their place.
    """

    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    correct: int

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "log_prob": round(self.log_prob, DIGITS),
            "tokens": self.tokens,
            "token_log_probs": _rounded(self.token_log_probs),
            "correct": self.correct,
        }


BLANK = Answer("", [], 0.0, [], 0.0, "none: the source is blank", True, False, [], None, ([], []))
"""The answer to a source that is blank."""


def _finite(number: float) -> float | None:
    """As JSON has it: it knows no −∞ and no NaN."""
    return round(number, DIGITS) if math.isfinite(number) else None


def _rounded(numbers: list[float]) -> list[float]:
    return [round(number, DIGITS) for number in numbers]


def _rounded_rows(weights: Tensor | None) -> list[list[float]] | None:
    return None if weights is None else [_rounded(row) for row in weights.tolist()]

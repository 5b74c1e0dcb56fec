"""``Prediction``: one output for one source, with its scores; ``TargetScore``: the score of a given target."""

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from seqloom.predictor.alignment import Links, join_words, links, word_attention

DIGITS = 6
"""Decimal places of log-probabilities and attention weights in JSON."""


@dataclass(frozen=True, eq=False)
class Words:
    """The attention of a prediction by words.

    source, target: the words of both sides, in text order.
    attention: one row per target word, one column per source word; None without attention. The sum of a row is the
        average sum of its tokens' rows.
    """

    source: list[str]
    target: list[str]
    attention: Tensor | None = field(repr=False)

    @property
    def alignment(self) -> Links | None:
        """A pair (source word, target word) per target word, by the greatest weight; None without attention."""
        return None if self.attention is None else links(self.attention)

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return {
            "source": self.source,
            "target": self.target,
            "alignment": self.alignment,
            "attention": _rounded_rows(self.attention),
        }


@dataclass(frozen=True, eq=False)
class Prediction:
    """One output for one source.

    text: the output as a value of the target field: for text, a string.
    tokens: the output as tokens, without EOS.
    log_prob: log-probability of the output, EOS included; NaN after a rollout.
    token_log_probs: log-probability of every token, and of EOS.
    score: the number by which the search ranked it.
    score_formula: how ``score`` is computed.
    finished: False if it was cut off at the maximum length, or no token was allowed to follow.
    truncated: whether a limit, not the model, determined the output: it is not finished, or the maximum length
        stopped a better partial hypothesis of the beam.
    source_tokens: the tokens of the source.
    attention: attention weights, one row per target token (with EOS), one column per source token; None without
        attention.
    word_ids: the index of its word, for every source token and for every target token. With a tokenizer that does not
        mark word boundaries (characters, bytes, whitespace), every token is a word.
    """

    text: Any
    tokens: list[str]
    log_prob: float
    token_log_probs: list[float]
    score: float
    score_formula: str
    finished: bool
    truncated: bool
    source_tokens: list[str]
    attention: Tensor | None = field(repr=False)
    word_ids: tuple[list[int], list[int]] = field(repr=False)

    @property
    def alignment(self) -> Links | None:
        """A pair (source token, token) per token without EOS, by the greatest weight; None without attention."""
        return None if self.attention is None else links(self.attention[: len(self.tokens)])

    def words(self) -> Words:
        """Attention by words: summed over the tokens of a source word, averaged over those of a target word."""
        source, target = self.word_ids
        attention = self.attention
        return Words(
            source=join_words(self.source_tokens, source),
            target=join_words(self.tokens, target),
            attention=None if attention is None else word_attention(attention[: len(self.tokens)], target, source),
        )

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types, without the source tokens, which all predictions for a source share."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "log_prob": _finite(self.log_prob),
            "token_log_probs": _rounded(self.token_log_probs),
            "score": _finite(self.score),
            "score_formula": self.score_formula,
            "finished": self.finished,
            "truncated": self.truncated,
            "alignment": self.alignment,
            "attention": _rounded_rows(self.attention),
        }


@dataclass(frozen=True)
class TargetScore:
    """The model's log-probability of a given target, in total and by token, EOS included.

    correct: number of tokens, EOS included, that the model ranks first at their position.
    """

    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    correct: int

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return {
            "log_prob": round(self.log_prob, DIGITS),
            "tokens": self.tokens,
            "token_log_probs": _rounded(self.token_log_probs),
            "correct": self.correct,
        }


BLANK = Prediction("", [], 0.0, [], 0.0, "none: the source is blank", True, False, [], None, ([], []))
"""The prediction for a blank source."""


def _finite(number: float) -> float | None:
    """A rounded number; None for infinity and NaN, which JSON does not support."""
    return round(number, DIGITS) if math.isfinite(number) else None


def _rounded(numbers: list[float]) -> list[float]:
    return [round(number, DIGITS) for number in numbers]


def _rounded_rows(attention: Tensor | None) -> list[list[float]] | None:
    return None if attention is None else [_rounded(row) for row in attention.tolist()]

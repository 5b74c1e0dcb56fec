"""From what a search or a rollout found to answers: values of the target's field."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.batch import UNKNOWN
from seqloom.data.fields import Field, Fields, Text
from seqloom.data.pad import Array
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode import Hypothesis
from seqloom.errors import OptionError
from seqloom.predictor import alignment
from seqloom.predictor.answer import Answer


def answers_of(
    found: Sequence[Hypothesis], fields: Fields, source: Array, example: Mapping[str, Any]
) -> list[Answer]:
    """Hypotheses as answers; source: as the model read it."""
    read, words = fields["source"].show(source), word_numbers(source, fields["source"])
    return [_answer(hypothesis, read, words, fields["target"], example) for hypothesis in found]


def _answer(
    hypothesis: Hypothesis, read: list[str], read_words: list[int], writer: Field, example: Mapping[str, Any]
) -> Answer:
    row = as_row(hypothesis.tokens, writer)
    return Answer(
        text=writer.decode(row, example),
        tokens=writer.show(row),
        log_prob=hypothesis.log_prob,
        token_log_probs=hypothesis.token_log_probs,
        value=hypothesis.value,
        formula=hypothesis.formula,
        finished=hypothesis.finished,
        truncated=hypothesis.truncated,
        source_tokens=read,
        weights=hypothesis.weights if hypothesis.on_source else None,
        word_numbers=(read_words, word_numbers(row, writer)),
    )


def as_row(tokens: Sequence[Any], field: Field) -> Array:
    """What a model wrote, as its field would have encoded it, but for steps that only mark the end."""
    dtype = field.dtype if field.symbols is None else np.int64  # a token may be copied from outside the vocabulary
    return np.array(tokens, dtype=dtype).reshape(-1, *field.shape)


def tokenizer_of(field: Field) -> Tokenizer:
    """What cuts the texts of constraints."""
    if not isinstance(field, Text):
        raise OptionError("constraints are about text, and the target of this model is none: leave them out")
    return field.tokenizer


def word_numbers(row: Array, field: Field) -> list[int]:
    """For every step the number of its word, where the field is text whose tokenizer marks words; else its own."""
    if not isinstance(field, Text) or not field.cutter.marks_words:
        return list(range(len(row)))
    shown = zip(row.tolist(), field.show(row), strict=True)
    return alignment.word_numbers(field.cutter.unknown if id_ == UNKNOWN else token for id_, token in shown)

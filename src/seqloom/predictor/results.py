"""From what a search or a rollout found to answers: values of the target's field."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from seqloom.batch import UNKNOWN
from seqloom.data.fields import Field, Fields, Text
from seqloom.data.pad import Array
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode import Hypothesis
from seqloom.decode.rollout import Rollout
from seqloom.errors import OptionError
from seqloom.predictor import alignment
from seqloom.predictor.answer import Answer


def searched(
    hypothesis: Hypothesis, read: list[str], read_words: list[int], writer: Field, example: Mapping[str, Any]
) -> Answer:
    """A hypothesis as an answer; read, read_words: the source's tokens, and the number of each one's word."""
    row = np.array(hypothesis.tokens, dtype=np.int64)
    return Answer(
        text=writer.decode(row, example),
        tokens=writer.show(row),
        log_prob=hypothesis.log_prob,
        token_log_probs=hypothesis.token_log_probs,
        value=hypothesis.value,
        formula=hypothesis.formula,
        finished=hypothesis.finished,
        source_tokens=read,
        weights=hypothesis.weights if hypothesis.on_source else None,
        word_numbers=(read_words, word_numbers(row, writer)),
    )


def rolled_out(found: Rollout, fields: Fields, source: Array, example: Mapping[str, Any]) -> Answer:
    """What was rolled out as an answer, which has no log-probability."""
    reader, writer = fields["source"], fields["target"]
    row = found.values.cpu().numpy()
    return Answer(
        text=writer.decode(row, example),
        tokens=writer.show(row),
        log_prob=math.nan,
        token_log_probs=[],
        value=math.nan,
        formula="none: it was rolled out",
        finished=found.finished,
        source_tokens=reader.show(source),
        weights=None,
        word_numbers=(word_numbers(source, reader), word_numbers(row, writer)),
    )


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

"""From the hypotheses of a search or rollout to predictions: values of the target field."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.batch import UNK
from seqloom.data.fields import Field, Fields, Text
from seqloom.data.pad import Array
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode import Hypothesis
from seqloom.errors import ConfigError
from seqloom.predictor import alignment
from seqloom.predictor.prediction import Prediction


def make_predictions(
    hypotheses: Sequence[Hypothesis], fields: Fields, source: Array, example: Mapping[str, Any]
) -> list[Prediction]:
    """Hypotheses as predictions; source: the encoded source."""
    source_tokens, source_word_ids = fields["source"].show(source), word_ids(source, fields["source"])
    return [
        _make_prediction(hypothesis, source_tokens, source_word_ids, fields["target"], example)
        for hypothesis in hypotheses
    ]


def _make_prediction(
    hypothesis: Hypothesis,
    source_tokens: list[str],
    source_word_ids: list[int],
    field: Field,
    example: Mapping[str, Any],
) -> Prediction:
    row = as_array(hypothesis.tokens, field)
    return Prediction(
        text=field.decode(row, example),
        tokens=field.show(row),
        log_prob=hypothesis.log_prob,
        token_log_probs=hypothesis.token_log_probs,
        score=hypothesis.score,
        score_formula=hypothesis.score_formula,
        finished=hypothesis.finished,
        truncated=hypothesis.truncated,
        source_tokens=source_tokens,
        attention=hypothesis.attention if hypothesis.on_source else None,
        word_ids=(source_word_ids, word_ids(row, field)),
    )


def as_array(tokens: Sequence[Any], field: Field) -> Array:
    """The output of a model as an array of its field, without steps that only mark the end."""
    dtype = field.dtype if field.symbols is None else np.int64  # copied tokens may be outside the vocabulary
    return np.array(tokens, dtype=dtype).reshape(-1, *field.shape)


def tokenizer_of(field: Field) -> Tokenizer:
    """The tokenizer of the target field, for the texts of constraints."""
    if not isinstance(field, Text):
        raise ConfigError("constraints need a text target, and the target of this model is not text: remove them")
    return field.tokenizer


def word_ids(row: Array, field: Field) -> list[int]:
    """The index of the word of every step, for text whose tokenizer marks word boundaries; else the step's index."""
    if not isinstance(field, Text) or not field.trainer.marks_words:
        return list(range(len(row)))
    shown = zip(row.tolist(), field.show(row), strict=True)
    return alignment.word_ids(field.trainer.unk_text if id_ == UNK else token for id_, token in shown)

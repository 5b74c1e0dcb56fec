"""Text fields: encoding and decoding, and default metrics."""

import numpy as np
import pytest

from seqloom.batch import EOS
from seqloom.data.fields import Text
from seqloom.registry import build

TEXTS = ["ein Hund", "zwei Hunde", "a b"]


@pytest.mark.parametrize("kind", ["character", "whitespace", "word", "byte"])
@pytest.mark.parametrize("end", [False, True])
def test_text_round_trip_and_eos_of_targets(kind, end):
    field = build("field", {"name": "text", "tokenizer": kind, "end": end})
    field.fit(TEXTS)
    rows = field.encode(TEXTS, [{}] * len(TEXTS))
    tokenizer = build("tokenizer", kind).train(iter(TEXTS))
    assert [row.tolist() for row in rows] == [ids + [EOS] * end for ids in tokenizer.encode(TEXTS)]
    assert all(row.dtype == field.dtype and row.shape[1:] == field.shape for row in rows)
    assert [field.decode(row, {}) for row in rows] == TEXTS
    assert [len(field.show(row)) for row in rows] == [len(row) for row in rows]
    assert field.size == len(tokenizer)
    assert field.end_steps == end
    assert np.iinfo(field.dtype).max >= field.size


SENTENCES = ["ein Hund läuft über die Straße", "zwei Hunde spielen im Park"]
PHONES = ["h ʊ n t", "p a ʁ k"]


@pytest.mark.parametrize(
    ("kind", "texts", "first"),
    [("character", TEXTS, "exact_match"), ("whitespace", PHONES, "sequence_error_rate"), ("bpe", SENTENCES, "bleu")],
)
def test_validation_metric_depends_on_the_tokenizer_and_texts(kind, texts, first):
    assert Text(tokenizer=kind).metrics(texts)[0] == first


QUERIES = [f"SELECT name FROM {table} WHERE size > {n}" for table in ("city", "river") for n in "123456789"]


@pytest.mark.parametrize(
    ("kind", "texts", "has_bleu"),
    [
        ("bpe", ["Hund", "Hunde", "Hundes"], False),
        ("bpe", ["gehe auf", "gehst auf", "schlafe"], False),
        ("whitespace", QUERIES, False),
        ("bpe", QUERIES * 3, False),
        ("whitespace", PHONES, False),
        ("bpe", SENTENCES, True),
    ],
)
def test_bleu_is_a_default_metric_for_sentences_only(kind, texts, has_bleu):
    assert ("bleu" in Text(tokenizer=kind).metrics(texts)) == has_bleu

"""Fields: from values to arrays and back."""

import numpy as np
import pytest

from seqloom.batch import END
from seqloom.data.fields import Text
from seqloom.registry import build

TEXTS = ["ein Hund", "zwei Hunde", "a b"]


@pytest.mark.parametrize("kind", ["character", "symbols", "word", "byte"])
@pytest.mark.parametrize("end", [False, True])
def test_text_comes_back_and_a_target_ends(kind, end):
    field = build("field", {"name": "text", "tokenizer": kind, "end": end})
    field.fit(TEXTS)
    rows = field.encode(TEXTS, [{}] * len(TEXTS))
    tokenizer = build("tokenizer", kind).train(iter(TEXTS))
    assert [row.tolist() for row in rows] == [ids + [END] * end for ids in tokenizer.encode(TEXTS)]
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
    [("character", TEXTS, "exact"), ("symbols", PHONES, "wer"), ("bpe", SENTENCES, "bleu")],
)
def test_the_metrics_suit_the_tokenizer(kind, texts, first):
    assert Text(tokenizer=kind).metrics(texts)[0] == first


QUERIES = [f"SELECT name FROM {table} WHERE size > {n}" for table in ("city", "river") for n in "123456789"]


@pytest.mark.parametrize(
    ("kind", "texts", "has_bleu"),
    [
        ("bpe", ["Hund", "Hunde", "Hundes"], False),
        ("bpe", ["gehe auf", "gehst auf", "schlafe"], False),
        ("symbols", QUERIES, False),
        ("bpe", QUERIES * 3, False),
        ("symbols", PHONES, False),
        ("bpe", SENTENCES, True),
    ],
)
def test_bleu_is_shown_for_sentences_alone(kind, texts, has_bleu):
    assert ("bleu" in Text(tokenizer=kind).metrics(texts)) == has_bleu

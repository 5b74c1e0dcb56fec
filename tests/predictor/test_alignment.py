"""Attention weights to alignment links, by token and by word: examples by hand, and words as in ``str.split``."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.predictor.alignment import join_words, links, pharaoh, word_attention, word_ids
from seqloom.predictor.prediction import BLANK, Prediction

ATTENTION = torch.tensor(
    [
        [0.7, 0.1, 0.1, 0.1],
        [0.1, 0.3, 0.4, 0.2],
        [0.0, 0.1, 0.3, 0.6],
        [0.25, 0.25, 0.25, 0.25],
    ]
)
"""Attention to ``▁ein ▁Hu nd .`` from ``▁a ▁do g`` and EOS."""


def prediction(**changes) -> Prediction:
    fields = {
        "text": "a dog",
        "tokens": ["▁a", "▁do", "g"],
        "log_prob": -0.5,
        "token_log_probs": [-0.1, -0.1, -0.1, -0.2],
        "score": -0.125,
        "score_formula": "log_prob / n",
        "finished": True,
        "truncated": False,
        "source_tokens": ["▁ein", "▁Hu", "nd", "."],
        "attention": ATTENTION,
        "word_ids": ([0, 1, 1, 1], [0, 1, 1]),
    }
    return Prediction(**fields | changes)


def test_links_select_the_greatest_weight():
    assert links(ATTENTION) == [(0, 0), (2, 1), (3, 2), (0, 3)]
    assert links(torch.tensor([[0.0, 0.0], [0.0, 1.0]])) == [(1, 1)]
    assert links(torch.zeros(0, 3)) == []
    assert links(torch.zeros(3, 0)) == []


def test_pharaoh_format_has_the_source_first():
    assert pharaoh([(0, 0), (2, 1)]) == "0-0 2-1"
    assert pharaoh([]) == ""


@pytest.mark.parametrize(
    ("tokens", "ids"),
    [
        (["▁the", "▁ca", "t", ".", "▁sat"], [0, 1, 1, 1, 2]),
        (["▁", "▁a", "▁", "▁b", "▁"], [0, 0, 1, 1, 1]),
        (["a", "▁b"], [0, 1]),
        (["▁a", "\t", "b"], [0, 1, 1]),
        (["▁", "▁"], [-1, -1]),
        ([], []),
    ],
)
def test_word_ids_of_tokens(tokens, ids):
    assert word_ids(tokens) == ids


@given(st.lists(st.sampled_from(["▁a", "▁bc", "d", ".", "▁", "▁�", "\t"]), max_size=12))
def test_words_equal_split(tokens):
    ids = word_ids(tokens)
    text = "".join(tokens).replace("▁", " ")
    assert join_words(tokens, ids) == text.split()
    assert ids == sorted(ids)


def test_words_of_characters_are_the_characters():
    assert join_words(["a", " ", "▁"], [0, 1, 2]) == ["a", " ", "▁"]


def test_word_attention_by_hand():
    # "a": ein 0.7, Hund. 0.3; "dog": the mean of its tokens, (0.1 + 0.0) / 2 and (0.9 + 1.0) / 2
    expected = torch.tensor([[0.7, 0.3], [0.05, 0.95]])
    torch.testing.assert_close(word_attention(ATTENTION[:3], [0, 1, 1], [0, 1, 1, 1]), expected)
    assert word_attention(torch.zeros(0, 4), [], [0, 1, 1, 1]).shape == (0, 2)
    assert word_attention(ATTENTION[:1], [-1], [0, 1, 1, 1]).shape == (0, 2)


def test_word_attention_equals_explicit_loops():
    random = np.random.default_rng(1)
    weights = random.dirichlet(np.ones(9), size=7)
    target, source = [0, 0, 1, 2, 2, 2, 3], [0, 1, 1, 1, 2, 3, 3, 4, 4]
    expected = np.zeros((4, 5))
    for i in range(4):
        rows = [t for t in range(7) if target[t] == i]
        for j in range(5):
            expected[i, j] = sum(weights[t, s] for t in rows for s in range(9) if source[s] == j) / len(rows)
    np.testing.assert_allclose(
        word_attention(torch.from_numpy(weights), target, source).numpy(), expected, atol=1e-12
    )


def test_alignment_excludes_eos():
    assert prediction().alignment == [(0, 0), (2, 1), (3, 2)]
    truncated = prediction(finished=False, token_log_probs=[-0.1] * 3, attention=ATTENTION[:3])
    assert truncated.alignment == [(0, 0), (2, 1), (3, 2)]


def test_prediction_by_words():
    words = prediction().words()
    assert (words.source, words.target) == (["ein", "Hund."], ["a", "dog"])
    assert words.alignment == [(0, 0), (1, 1)]
    assert words.attention.sum(1).tolist() == pytest.approx([1, 1])


def test_alignment_is_none_without_attention():
    without = prediction(attention=None)
    assert without.alignment is None
    assert without.words().alignment is None
    assert without.to_json()["attention"] is None
    assert BLANK.words().target == []


def test_json_is_rounded():
    data = prediction(attention=ATTENTION / 3).to_json()
    assert data["attention"][0] == [0.233333, 0.033333, 0.033333, 0.033333]
    assert data["alignment"] == [(0, 0), (2, 1), (3, 2)]
    assert (data["text"], data["finished"], data["score_formula"]) == ("a dog", True, "log_prob / n")
    assert prediction(score=-math.inf).to_json()["score"] is None

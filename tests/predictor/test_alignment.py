"""From weights of attention to links, by token and by word: examples by hand, and str.split as the judge of words."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.predictor.alignment import joined, links, merged, pharaoh, word_numbers
from seqloom.predictor.answer import BLANK, Answer

WEIGHTS = torch.tensor(
    [
        [0.7, 0.1, 0.1, 0.1],
        [0.1, 0.3, 0.4, 0.2],
        [0.0, 0.1, 0.3, 0.6],
        [0.25, 0.25, 0.25, 0.25],
    ]
)
"""Of ``▁ein ▁Hu nd .`` for ``▁a ▁do g`` and END."""


def answer(**changes) -> Answer:
    facts = {
        "text": "a dog",
        "tokens": ["▁a", "▁do", "g"],
        "log_prob": -0.5,
        "token_log_probs": [-0.1, -0.1, -0.1, -0.2],
        "value": -0.125,
        "formula": "log_prob / n",
        "finished": True,
        "truncated": False,
        "source_tokens": ["▁ein", "▁Hu", "nd", "."],
        "weights": WEIGHTS,
        "word_numbers": ([0, 1, 1, 1], [0, 1, 1]),
    }
    return Answer(**facts | changes)


def test_links_go_to_the_greatest_weight():
    assert links(WEIGHTS) == [(0, 0), (2, 1), (3, 2), (0, 3)]
    assert links(torch.tensor([[0.0, 0.0], [0.0, 1.0]])) == [(1, 1)]
    assert links(torch.zeros(0, 3)) == []
    assert links(torch.zeros(3, 0)) == []


def test_the_pharaoh_format_has_the_source_first():
    assert pharaoh([(0, 0), (2, 1)]) == "0-0 2-1"
    assert pharaoh([]) == ""


@pytest.mark.parametrize(
    ("pieces", "numbers"),
    [
        (["▁the", "▁ca", "t", ".", "▁sat"], [0, 1, 1, 1, 2]),
        (["▁", "▁a", "▁", "▁b", "▁"], [0, 0, 1, 1, 1]),
        (["a", "▁b"], [0, 1]),
        (["▁a", "\t", "b"], [0, 1, 1]),
        (["▁", "▁"], [-1, -1]),
        ([], []),
    ],
)
def test_words_of_pieces(pieces, numbers):
    assert word_numbers(pieces) == numbers


@given(st.lists(st.sampled_from(["▁a", "▁bc", "d", ".", "▁", "▁�", "\t"]), max_size=12))
def test_words_are_what_split_finds(pieces):
    numbers = word_numbers(pieces)
    text = "".join(pieces).replace("▁", " ")
    assert joined(pieces, numbers) == text.split()
    assert numbers == sorted(numbers)


def test_words_of_characters_are_the_characters():
    assert joined(["a", " ", "▁"], [0, 1, 2]) == ["a", " ", "▁"]


def test_weights_of_words_by_hand():
    # "a" reads ein 0.7, Hund. 0.3; "dog" the mean of its pieces: (0.1 + 0.0) / 2 and (0.9 + 1.0) / 2
    expected = torch.tensor([[0.7, 0.3], [0.05, 0.95]])
    torch.testing.assert_close(merged(WEIGHTS[:3], [0, 1, 1], [0, 1, 1, 1]), expected)
    assert merged(torch.zeros(0, 4), [], [0, 1, 1, 1]).shape == (0, 2)
    assert merged(WEIGHTS[:1], [-1], [0, 1, 1, 1]).shape == (0, 2)


def test_weights_of_words_against_plain_loops():
    random = np.random.default_rng(1)
    weights = random.dirichlet(np.ones(9), size=7)
    target, source = [0, 0, 1, 2, 2, 2, 3], [0, 1, 1, 1, 2, 3, 3, 4, 4]
    expected = np.zeros((4, 5))
    for i in range(4):
        rows = [t for t in range(7) if target[t] == i]
        for j in range(5):
            expected[i, j] = sum(weights[t, s] for t in rows for s in range(9) if source[s] == j) / len(rows)
    np.testing.assert_allclose(merged(torch.from_numpy(weights), target, source).numpy(), expected, atol=1e-12)


def test_an_answer_is_aligned_without_its_end():
    assert answer().alignment == [(0, 0), (2, 1), (3, 2)]
    cut = answer(finished=False, token_log_probs=[-0.1] * 3, weights=WEIGHTS[:3])
    assert cut.alignment == [(0, 0), (2, 1), (3, 2)]


def test_an_answer_by_words():
    words = answer().words()
    assert (words.source, words.target) == (["ein", "Hund."], ["a", "dog"])
    assert words.alignment == [(0, 0), (1, 1)]
    assert words.weights.sum(1).tolist() == pytest.approx([1, 1])


def test_without_attention_there_is_no_alignment():
    blind = answer(weights=None)
    assert blind.alignment is None
    assert blind.words().alignment is None
    assert blind.to_json()["weights"] is None
    assert BLANK.words().target == []


def test_json_is_plain_and_rounded():
    facts = answer(weights=WEIGHTS / 3).to_json()
    assert facts["weights"][0] == [0.233333, 0.033333, 0.033333, 0.033333]
    assert facts["alignment"] == [(0, 0), (2, 1), (3, 2)]
    assert (facts["text"], facts["finished"], facts["formula"]) == ("a dog", True, "log_prob / n")
    assert answer(value=-math.inf).to_json()["value"] is None

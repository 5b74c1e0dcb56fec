"""Minimum Bayes risk: against a plain sum over the samples."""

from collections import Counter

import numpy as np
import pytest
import sacrebleu
from rapidfuzz.distance import Levenshtein

from seqloom import Batch
from seqloom.decode.mbr import Mbr
from seqloom.decode.sample import Sample
from seqloom.decode.utility import ngram_f
from seqloom.errors import OptionError
from tests.decode.plain import TableModel, drawn

MODEL = TableModel(drawn(0), drawn(1))
BATCH = Batch.of(None, [[0], [1, 4]])


def read(tokens) -> str:
    return " ".join("abcdefg"[t] * 3 for t in tokens)


def plain_f(one, other) -> float:
    """The mean F-score of 1- to 4-grams."""
    scores = []
    for n in range(1, 5):
        a, b = (Counter(tuple(y[i : i + n]) for i in range(len(y) - n + 1)) for y in (one, other))
        if a or b:
            shared = (a & b).total()
            scores.append(0.0 if not shared else 2 / (a.total() / shared + b.total() / shared))
    return sum(scores) / len(scores) if scores else 1.0


def chrf(one, other) -> float:
    return sacrebleu.sentence_chrf(read(one), [read(other)]).score


def fewer_errors(one, other) -> float:
    """− the rate of wrong symbols; of none at all any is wrong."""
    return -100 * Levenshtein.distance(one, other) / len(other) if other else -100.0 * bool(one)


def shared_letters(answer: str, right: str) -> float:
    """A function of one's own: how many letters of the answer are right, and not the other way round."""
    return sum(letter in right for letter in answer) / (1 + len(answer))


@pytest.mark.parametrize(
    ("options", "utility", "formula"),
    [
        ({}, plain_f, "mean n-gram F with the samples"),
        ({"metric": "chrf"}, chrf, "mean chrf with the samples"),
        ({"metric": "ser"}, fewer_errors, "mean −ser with the samples"),
        (
            {"metric": shared_letters},
            lambda a, b: shared_letters(read(a), read(b)),
            "mean shared_letters with the samples",
        ),
    ],
)
def test_the_answer_most_like_all_samples(options, utility, formula):
    drawn_by = {"seed": 4, "temperature": 1.2, "min_p": 0.05, "max_length": 6}
    samples = Sample(samples=40, **drawn_by)(MODEL, BATCH)
    found = Mbr(samples=40, n_best=5, **drawn_by, **options)(MODEL, BATCH, read=lambda _, tokens: read(tokens))
    for answers, drawn_here in zip(found, samples, strict=True):
        ended = [h.tokens for h in drawn_here if h.finished]
        assert len(ended) < 40
        values = {tuple(y): sum(utility(y, other) for other in ended) / len(ended) for y in ended}
        best = sorted(values.values(), reverse=True)[:5]
        assert [h.value for h in answers] == pytest.approx(best, abs=1e-9)
        assert [values[tuple(h.tokens)] for h in answers] == pytest.approx(best, abs=1e-9)
        assert len({tuple(h.tokens) for h in answers}) == len(answers)
        for h in answers:  # what it says of an answer is what the samples said
            assert h.formula == formula
            (same, *_) = [s for s in drawn_here if s.tokens == h.tokens and s.finished]
            assert (h.log_prob, h.token_log_probs) == (same.log_prob, same.token_log_probs)


def test_ngram_f_of_all_pairs():
    random = np.random.default_rng(0)
    answers = [random.integers(3, 6, size=n).tolist() for n in (0, 1, 1, 2, 5, 9, 9, 3)]
    expected = [[plain_f(one, other) for other in answers] for one in answers]
    np.testing.assert_allclose(ngram_f(answers), expected, atol=1e-12)


def test_a_metric_of_texts_needs_texts():
    with pytest.raises(OptionError, match=r"mbr by chrf judges texts: it needs read="):
        Mbr(metric="chrf")(MODEL, BATCH)

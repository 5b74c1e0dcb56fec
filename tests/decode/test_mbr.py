"""Minimum Bayes risk decoding: compared with an explicit sum over the samples."""

from collections import Counter

import numpy as np
import pytest
import sacrebleu
from rapidfuzz.distance import Levenshtein

from seqloom import Batch
from seqloom.decode.mbr import Mbr
from seqloom.decode.sample import Sample
from seqloom.decode.utility import ngram_f
from seqloom.errors import ConfigError
from tests.decode.reference import TableModel, random_table

MODEL = TableModel(random_table(0), random_table(1))
BATCH = Batch.from_lists(None, [[0], [1, 4]])


def detokenize(tokens) -> str:
    return " ".join("abcdefg"[t] * 3 for t in tokens)


def reference_f(one, other) -> float:
    """The mean F-score of 1- to 4-grams."""
    scores = []
    for n in range(1, 5):
        a, b = (Counter(tuple(y[i : i + n]) for i in range(len(y) - n + 1)) for y in (one, other))
        if a or b:
            shared = (a & b).total()
            scores.append(0.0 if not shared else 2 / (a.total() / shared + b.total() / shared))
    return sum(scores) / len(scores) if scores else 1.0


def chrf(one, other) -> float:
    return sacrebleu.sentence_chrf(detokenize(one), [detokenize(other)]).score


def negated_error_rate(one, other) -> float:
    """The negated error rate; with an empty reference, any token is an error."""
    return -100 * Levenshtein.distance(one, other) / len(other) if other else -100.0 * bool(one)


def shared_letters(hypothesis: str, reference: str) -> float:
    """A user-defined utility that is not symmetric: letters of the hypothesis that occur in the reference."""
    return sum(letter in reference for letter in hypothesis) / (1 + len(hypothesis))


@pytest.mark.parametrize(
    ("options", "utility", "formula"),
    [
        ({}, reference_f, "mean n-gram F with the samples"),
        ({"metric": "chrf"}, chrf, "mean chrf with the samples"),
        ({"metric": "per"}, negated_error_rate, "mean −per with the samples"),
        (
            {"metric": shared_letters},
            lambda a, b: shared_letters(detokenize(a), detokenize(b)),
            "mean shared_letters with the samples",
        ),
    ],
)
def test_hypotheses_are_ranked_by_mean_utility(options, utility, formula):
    sampling = {"seed": 4, "temperature": 1.2, "min_p": 0.05, "max_length": 6}
    samples = Sample(samples=40, **sampling)(MODEL, BATCH)
    search = Mbr(samples=40, n_best=5, **sampling, **options)
    found = search(MODEL, BATCH, detokenize=lambda _, tokens: detokenize(tokens))
    for hypotheses, sentence_samples in zip(found, samples, strict=True):
        finished = [h.tokens for h in sentence_samples if h.finished]
        assert len(finished) < 40
        scores = {tuple(y): sum(utility(y, other) for other in finished) / len(finished) for y in finished}
        best = sorted(scores.values(), reverse=True)[:5]
        assert [h.score for h in hypotheses] == pytest.approx(best, abs=1e-9)
        assert [scores[tuple(h.tokens)] for h in hypotheses] == pytest.approx(best, abs=1e-9)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:  # log-probabilities are those of the sample
            assert h.score_formula == formula
            (same, *_) = [s for s in sentence_samples if s.tokens == h.tokens and s.finished]
            assert (h.log_prob, h.token_log_probs) == (same.log_prob, same.token_log_probs)


def test_ngram_f_equals_reference():
    random = np.random.default_rng(0)
    hypotheses = [random.integers(3, 6, size=n).tolist() for n in (0, 1, 1, 2, 5, 9, 9, 3)]
    expected = [[reference_f(one, other) for other in hypotheses] for one in hypotheses]
    np.testing.assert_allclose(ngram_f(hypotheses), expected, atol=1e-12)


def test_text_metric_needs_detokenize():
    with pytest.raises(ConfigError, match=r"'mbr' with chrf as its metric compares texts: pass detokenize="):
        Mbr(metric="chrf")(MODEL, BATCH)

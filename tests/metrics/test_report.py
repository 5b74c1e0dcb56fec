"""Reports: intervals that cover, buckets that add up, and what is printed and kept."""

import io
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from seqloom.errors import OptionError, UnknownNameError
from seqloom.metrics import evaluate, resampling
from seqloom.metrics.buckets import choose_bounds
from seqloom.registry import build, parts

from .helpers import answers, sentences, spoilt

EXACT = build("metric", "exact")
ALL = [build("metric", name) for name in parts("metric")]


def coin_answers(n, share, seed):
    """Answers each of which is right with probability ``share``."""
    right = np.random.default_rng(seed).random(n) < share
    return answers(["a" if r else "b" for r in right], [["a"]] * n)


@pytest.fixture(scope="module")
def judged():
    random = np.random.default_rng(0)
    texts = sentences(150, 1, longest=30)
    lengths = np.array([len(text.split()) for text in texts])
    return answers(
        spoilt(texts, 0.2, 2),
        [[text] for text in texts],
        lengths,
        log_probs=-lengths * random.random(150),
        tokens=lengths + 1,
        correct=lengths // 2,
    )


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_the_truth_as_often_as_they_say(confidence):
    covered = 0
    for seed in range(300):
        report = evaluate(coin_answers(150, 0.7, seed), [EXACT], bootstrap=300, confidence=confidence, seed=seed)
        low, high = report["exact"].interval
        covered += low <= 70 <= high
    assert covered / 300 == pytest.approx(confidence, abs=0.06)


def test_the_interval_of_a_share_is_as_wide_as_the_binomial_says():
    low, high = evaluate(coin_answers(2000, 0.3, 1), [EXACT], bootstrap=4000)["exact"].interval
    assert high - low == pytest.approx(2 * 1.96 * 100 * np.sqrt(0.3 * 0.7 / 2000), rel=0.1)


def test_bootstrap_sums_are_of_examples_drawn_with_replacement(monkeypatch):
    """Of one column per example the sums are the counts: N in all, each on average 1 with variance 1 − 1/N."""
    monkeypatch.setattr(resampling, "CELLS", 1000)  # so that there are several slices, the last one smaller
    counts = resampling.bootstrap_totals(np.eye(30), 5000, seed=1)
    assert counts.shape == (5000, 30)
    assert (counts.sum(1) == 30).all()
    assert counts.mean(0) == pytest.approx(np.ones(30), abs=0.07)
    assert counts.var(0).mean() == pytest.approx(1 - 1 / 30, abs=0.03)
    assert np.cov(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(-1 / 30, abs=0.05)


def test_the_same_seed_gives_the_same_report_and_another_does_not(judged):
    first, again, other = (evaluate(judged, ALL, bootstrap=50, seed=seed).to_json() for seed in (1, 1, 2))
    assert first == again
    assert first["metrics"]["bleu"]["interval"] != other["metrics"]["bleu"]["interval"]
    assert first["metrics"]["bleu"]["value"] == other["metrics"]["bleu"]["value"]
    alone = evaluate(judged, [build("metric", "ser")], bootstrap=50, seed=1).to_json()
    assert alone["metrics"]["ser"] == first["metrics"]["ser"]


def test_an_interval_is_around_its_value(judged):
    for result in evaluate(judged, ALL, bootstrap=200).results:
        low, high = result.interval
        assert low < result.value < high, result.metric.name


def test_a_bucket_is_what_its_examples_alone_would_give(judged):
    report = evaluate(judged, ALL, buckets=[5, 12, 20], bootstrap=0)
    assert [(b.low, b.high) for b in report.buckets] == [(1, 5), (6, 12), (13, 20), (21, None)]
    for bucket in report.buckets:
        rows = [
            i
            for i, n in enumerate(judged.source_lengths)
            if bucket.low <= n and (bucket.high is None or n <= bucket.high)
        ]
        part = answers(
            [judged.hypotheses[i] for i in rows],
            [judged.references[i] for i in rows],
            log_probs=judged.log_probs[rows],
            tokens=judged.tokens[rows],
            correct=judged.correct[rows],
        )
        assert bucket.examples == len(rows)
        assert bucket.values == pytest.approx([metric.score(part) for metric in ALL], rel=1e-12)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=120), st.integers(1, 40))
def test_buckets_hold_every_example_once_and_none_is_sparse(lengths, factor):
    lengths = factor * np.array(lengths)
    report = evaluate(answers(["a"] * len(lengths), [["a"]] * len(lengths), lengths), [EXACT], bootstrap=0)
    buckets = report.buckets
    assert sum(b.examples for b in buckets) == len(lengths)
    assert buckets[0].low <= lengths.min()
    assert buckets[-1].high is None
    assert all(after.low == before.high + 1 for before, after in pairwise(buckets))
    assert all(b.low <= b.high for b in buckets[:-1])
    assert len(buckets) <= 8
    assert len(buckets) == 1 or min(b.examples for b in buckets) >= 10


@pytest.mark.parametrize(
    ("lengths", "bounds"),
    [
        (np.repeat(np.arange(1, 31), 20), [5, 10, 15, 20, 25]),  # sentences
        (np.repeat(np.arange(3, 12), 50), [4, 6, 8, 10]),  # words
        (np.repeat(np.arange(100, 1000), 2), [200, 400, 600, 800]),  # pages of characters
        (np.repeat([1, 2, 3], 50), [1, 2]),
        (np.full(100, 7), []),
        (np.append(np.repeat(np.arange(1, 31), 20), 100_000), [5, 10, 15, 20, 25]),  # and one that is far away
        (np.arange(1, 16), []),  # too few for more than one
    ],
)
def test_bounds_are_round_and_suit_the_lengths(lengths, bounds):
    assert choose_bounds(lengths) == bounds


def test_a_bucket_with_nothing_in_it_has_no_value():
    report = evaluate(answers(["a", "b"], [["a"], ["a"]], [1, 9]), [EXACT], buckets=[3, 6, 9], bootstrap=0)
    assert [(b.label, b.examples) for b in report.buckets] == [("1–3", 1), ("4–6", 0), ("7–9", 1)]
    assert [b["values"]["exact"] for b in report.to_json()["by_source_length"]] == [100, None, 0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"buckets": [5, 5]}, "are no rising lengths"),
        ({"buckets": [0, 5]}, "are no rising lengths"),
        ({"bootstrap": -1}, "bootstrap=-1"),
        ({"confidence": 95}, "confidence=95 is to be between 0 and 1"),
        ({"metrics": []}, "no metric to judge by"),
        ({"metrics": [EXACT, build("metric", "exact")]}, "metric 'exact' is there 2 times"),
    ],
)
def test_options_without_sense_are_refused(options, says):
    with pytest.raises(OptionError, match=says):
        evaluate(coin_answers(5, 0.5, 1), **({"metrics": [EXACT]} | options))


def test_a_result_is_asked_for_by_label_or_name():
    lower = build("metric", {"name": "exact", "lowercase": True})
    judged = answers(["A", "b"], [["a"], ["a"]])
    assert evaluate(judged, [lower, EXACT])["exact"].value == 0
    assert evaluate(judged, [lower, EXACT])["exact lowercase=True"].value == 50
    assert evaluate(judged, [lower])["exact"].value == 50
    with pytest.raises(UnknownNameError, match="did you mean 'exact'"):
        evaluate(judged, [EXACT])["exakt"]


def test_json_has_numbers_or_none():
    """Also where a perplexity is infinite."""
    judged = answers(None, [["a"]] * 3, log_probs=np.array([-np.inf, -1, -2]), tokens=np.ones(3, dtype=int))
    kept = json.loads(json.dumps(evaluate(judged, [build("metric", "perplexity")]).to_json(), allow_nan=False))
    assert kept["metrics"]["perplexity"]["value"] is None
    assert kept["metrics"]["perplexity"]["interval"] == [None, None]


@pytest.mark.parametrize("bootstrap", [0, 20])
def test_everything_fits_into_a_pipe(judged, bootstrap):
    report = evaluate(judged, ALL, bootstrap=bootstrap)
    console = Console(file=io.StringIO(), width=80)
    console.print(report)
    lines = console.file.getvalue().splitlines()
    assert "…" not in console.file.getvalue()
    for row, result in enumerate(report.results):
        digits = result.metric.digits
        first, second = (line.split() for line in lines if line.split()[:1] == [result.metric.label])
        assert first[1] == f"{result.value:.{digits}f}"
        interval = [f"{end:.{digits}f}" for end in result.interval or ()]
        assert first[2:-3] == ([interval[0], "–", interval[1]] if bootstrap else [])
        assert second[1:] == [f"{bucket.values[row]:.{digits}f}" for bucket in report.buckets]
        assert result.signature in lines

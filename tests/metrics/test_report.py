"""Reports: coverage of confidence intervals, buckets of source lengths, and output as a table and as JSON."""

import io
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from seqloom.errors import ConfigError, UnknownNameError
from seqloom.metrics import evaluate, resampling
from seqloom.metrics.buckets import choose_bounds
from seqloom.registry import build, parts

from .helpers import corrupted, make_data, sentences

EXACT_MATCH = build("metric", "exact_match")
ALL = [build("metric", name) for name in parts("metric")]


def coin_flips(n, share, seed):
    """Data whose hypotheses are correct with probability ``share``."""
    right = np.random.default_rng(seed).random(n) < share
    return make_data(["a" if r else "b" for r in right], [["a"]] * n)


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    texts = sentences(150, 1, max_words=30)
    lengths = np.array([len(text.split()) for text in texts])
    return make_data(
        corrupted(texts, 0.2, 2),
        [[text] for text in texts],
        lengths,
        log_probs=-lengths * random.random(150),
        tokens=lengths + 1,
        correct=lengths // 2,
    )


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_confidence_interval_has_nominal_coverage(confidence):
    covered = 0
    for seed in range(300):
        report = evaluate(coin_flips(150, 0.7, seed), [EXACT_MATCH], bootstrap=300, confidence=confidence, seed=seed)
        low, high = report["exact_match"].interval
        covered += low <= 70 <= high
    assert covered / 300 == pytest.approx(confidence, abs=0.06)


def test_interval_of_exact_match_has_binomial_width():
    low, high = evaluate(coin_flips(2000, 0.3, 1), [EXACT_MATCH], bootstrap=4000)["exact_match"].interval
    assert high - low == pytest.approx(2 * 1.96 * 100 * np.sqrt(0.3 * 0.7 / 2000), rel=0.1)


def test_bootstrap_totals_sum_examples_drawn_with_replacement(monkeypatch):
    """With one column per example, the totals are counts: N in total, each with mean 1 and variance 1 − 1/N."""
    monkeypatch.setattr(resampling, "CELLS", 1000)  # several slices, the last one smaller
    counts = resampling.bootstrap_totals(np.eye(30), 5000, seed=1)
    assert counts.shape == (5000, 30)
    assert (counts.sum(1) == 30).all()
    assert counts.mean(0) == pytest.approx(np.ones(30), abs=0.07)
    assert counts.var(0).mean() == pytest.approx(1 - 1 / 30, abs=0.03)
    assert np.cov(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(-1 / 30, abs=0.05)


def test_seed_determines_intervals(data):
    first, again, other = (evaluate(data, ALL, bootstrap=50, seed=seed).to_json() for seed in (1, 1, 2))
    assert first == again
    assert first["metrics"]["bleu"]["interval"] != other["metrics"]["bleu"]["interval"]
    assert first["metrics"]["bleu"]["value"] == other["metrics"]["bleu"]["value"]
    alone = evaluate(data, [build("metric", "per")], bootstrap=50, seed=1).to_json()
    assert alone["metrics"]["per"] == first["metrics"]["per"]


def test_interval_contains_value(data):
    for result in evaluate(data, ALL, bootstrap=200).results:
        low, high = result.interval
        assert low < result.value < high, result.metric.name


def test_bucket_values_equal_values_of_its_examples(data):
    report = evaluate(data, ALL, buckets=[5, 12, 20], bootstrap=0)
    assert [(b.low, b.high) for b in report.buckets] == [(1, 5), (6, 12), (13, 20), (21, None)]
    for bucket in report.buckets:
        rows = [
            i
            for i, n in enumerate(data.source_lengths)
            if bucket.low <= n and (bucket.high is None or n <= bucket.high)
        ]
        part = make_data(
            [data.hypotheses[i] for i in rows],
            [data.references[i] for i in rows],
            log_probs=data.log_probs[rows],
            tokens=data.tokens[rows],
            correct=data.correct[rows],
        )
        assert bucket.examples == len(rows)
        assert bucket.values == pytest.approx([metric.score(part) for metric in ALL], rel=1e-12)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=120), st.integers(1, 40))
def test_buckets_partition_examples_and_none_is_sparse(lengths, factor):
    lengths = factor * np.array(lengths)
    report = evaluate(make_data(["a"] * len(lengths), [["a"]] * len(lengths), lengths), [EXACT_MATCH], bootstrap=0)
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
        (np.repeat(np.arange(100, 1000), 2), [200, 400, 600, 800]),  # characters
        (np.repeat([1, 2, 3], 50), [1, 2]),
        (np.full(100, 7), []),
        (np.append(np.repeat(np.arange(1, 31), 20), 100_000), [5, 10, 15, 20, 25]),  # one outlier
        (np.arange(1, 16), []),  # too few examples for two buckets
    ],
)
def test_bounds_are_round_numbers_that_fit_the_lengths(lengths, bounds):
    assert choose_bounds(lengths) == bounds


def test_empty_bucket_has_no_value():
    report = evaluate(make_data(["a", "b"], [["a"], ["a"]], [1, 9]), [EXACT_MATCH], buckets=[3, 6, 9], bootstrap=0)
    assert [(b.label, b.examples) for b in report.buckets] == [("1–3", 1), ("4–6", 0), ("7–9", 1)]
    assert [b["values"]["exact_match"] for b in report.to_json()["by_source_length"]] == [100, None, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buckets": [5, 5]}, r"buckets=\[5, 5\] is invalid: give increasing lengths"),
        ({"buckets": [0, 5]}, r"buckets=\[0, 5\] is invalid: give increasing lengths"),
        ({"bootstrap": -1}, "bootstrap=-1 is invalid"),
        ({"confidence": 95}, "confidence=95 is invalid: it must be between 0 and 1"),
        ({"metrics": []}, "metrics is empty"),
        ({"metrics": [EXACT_MATCH, build("metric", "exact_match")]}, "metric 'exact_match' is given 2 times"),
    ],
)
def test_invalid_options_are_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(coin_flips(5, 0.5, 1), **({"metrics": [EXACT_MATCH]} | options))


def test_result_lookup_by_label_or_name():
    lower = build("metric", {"name": "exact_match", "lowercase": True})
    data = make_data(["A", "b"], [["a"], ["a"]])
    assert evaluate(data, [lower, EXACT_MATCH])["exact_match"].value == 0
    assert evaluate(data, [lower, EXACT_MATCH])["exact_match lowercase=True"].value == 50
    assert evaluate(data, [lower])["exact_match"].value == 50
    with pytest.raises(UnknownNameError, match="did you mean 'exact_match'"):
        evaluate(data, [EXACT_MATCH])["exakt_match"]


def test_json_replaces_infinite_values_by_none():
    data = make_data(None, [["a"]] * 3, log_probs=np.array([-np.inf, -1, -2]), tokens=np.ones(3, dtype=int))
    saved = json.loads(json.dumps(evaluate(data, [build("metric", "perplexity")]).to_json(), allow_nan=False))
    assert saved["metrics"]["perplexity"]["value"] is None
    assert saved["metrics"]["perplexity"]["interval"] == [None, None]


@pytest.mark.parametrize("bootstrap", [0, 20])
def test_table_fits_80_columns(data, bootstrap):
    report = evaluate(data, ALL, bootstrap=bootstrap)
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

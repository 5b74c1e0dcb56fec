"""The contract of every registered metric."""

import math

import numpy as np
import pytest

from seqloom.errors import ConfigError
from seqloom.metrics import EvaluationData, evaluate
from seqloom.registry import build, options
from tests.metrics.helpers import corrupted, make_data, sentences
from tests.variants import every, label

N = 40
SPECS = [spec for spec in every("metric") if all(v in (True, False) for o, v in spec.items() if o != "name")]
"""Every metric with each Boolean option switched; other options may need a package or a download."""
every_metric = pytest.mark.parametrize("spec", SPECS, ids=label)


def built(spec):
    try:
        return build("metric", spec)
    except ConfigError as error:
        pytest.skip(f"the option depends on another one: {error}")


def evaluation_data(share: float, seed: int = 0) -> EvaluationData:
    """Hypotheses with about this share of wrong words, and correspondingly low log-probabilities."""
    texts = sentences(N, 1)
    tokens = np.array([len(text.split()) + 1 for text in texts])
    error_rates = np.random.default_rng(seed).random(N) * share
    return make_data(
        corrupted(texts, share, seed),
        [[text] for text in texts],
        tokens,
        log_probs=-tokens * error_rates,
        tokens=tokens,
        correct=np.round(tokens * (1 - error_rates)),
    )


def select(data: EvaluationData, rows) -> EvaluationData:
    """These examples, in this order."""
    columns = {name: None if column is None else [column[row] for row in rows] for name, column in vars(data).items()}
    arrays = ("source_lengths", "log_probs", "tokens", "correct")
    return EvaluationData(**{name: np.array(c) if name in arrays else c for name, c in columns.items()})


def quality(metric, data: EvaluationData) -> float:
    """The score, with the sign that makes higher better."""
    return metric.score(data) * (1 if metric.higher_is_better else -1)


@every_metric
def test_more_errors_give_a_worse_score(spec):
    metric = built(spec)
    perfect, good, bad = (quality(metric, evaluation_data(share)) for share in (0.0, 0.2, 0.9))
    assert perfect > good > bad


@every_metric
def test_score_does_not_depend_on_the_order_of_examples(spec):
    metric, data = built(spec), evaluation_data(0.3)
    shuffled = select(data, np.random.default_rng(5).permutation(N))
    assert metric.score(shuffled) == pytest.approx(metric.score(data), rel=1e-12)


@every_metric
def test_statistics_of_an_example_do_not_depend_on_other_examples(spec):
    """So that the sum over any rows (a bucket, a resample) gives the score of these examples."""
    metric, data = built(spec), evaluation_data(0.3)
    statistics = metric.statistics(data)
    assert statistics.dtype == np.float64
    assert len(statistics) == N
    alone = [metric.statistics(select(data, [row]))[0] for row in range(N)]
    np.testing.assert_allclose(statistics, alone)
    sums = np.stack([statistics[:10].sum(0), statistics.sum(0)])
    values = [metric.score(select(data, range(10))), metric.score(data)]
    np.testing.assert_allclose(metric.value(sums), values)


@every_metric
def test_confidence_interval_contains_the_score_and_depends_on_the_seed_only(spec):
    metric, data = built(spec), evaluation_data(0.3)
    first, second = (evaluate(data, [metric], bootstrap=200)[metric.label] for _ in range(2))
    low, high = first.interval
    assert low < first.value < high
    assert first.value == metric.score(data)
    assert all(map(math.isfinite, (low, high)))
    assert (low, high) == second.interval


@every_metric
def test_signature_contains_all_options(spec):
    metric, data = built(spec), evaluation_data(0.3)
    default = build("metric", spec["name"])
    assert metric.name == default.label == spec["name"]
    assert metric.signature(data).lower().startswith(spec["name"])
    assert "version:" in metric.signature(data)
    for option in options(type(metric)):
        assert hasattr(metric, option)
    if len(spec) > 1:
        assert metric.label != default.label
        assert metric.signature(data) != default.signature(data)

"""What every registered metric must do."""

import math

import numpy as np
import pytest

from seqloom.errors import OptionError
from seqloom.metrics import Answers, evaluate
from seqloom.registry import build, options
from tests.metrics.helpers import answers, sentences, spoilt
from tests.variants import every, label

N = 40
SPECS = [spec for spec in every("metric") if all(v in (True, False) for o, v in spec.items() if o != "name")]
"""With every switch turned; other choices may need a package or a download."""
every_metric = pytest.mark.parametrize("spec", SPECS, ids=label)


def made(spec):
    try:
        return build("metric", spec)
    except OptionError as error:
        pytest.skip(f"a switch that goes with another: {error}")


def judged(share: float, seed: int = 0) -> Answers:
    """Answers of which about this share of the words is wrong, and a model that finds them as bad."""
    texts = sentences(N, 1)
    tokens = np.array([len(text.split()) + 1 for text in texts])
    doubt = np.random.default_rng(seed).random(N) * share
    return answers(
        spoilt(texts, share, seed),
        [[text] for text in texts],
        tokens,
        log_probs=-tokens * doubt,
        tokens=tokens,
        correct=np.round(tokens * (1 - doubt)),
    )


def chosen(given: Answers, rows) -> Answers:
    """Some of the examples, in this order."""
    columns = {
        name: None if column is None else [column[row] for row in rows] for name, column in vars(given).items()
    }
    arrays = ("source_lengths", "log_probs", "tokens", "correct")
    return Answers(**{name: np.array(c) if name in arrays else c for name, c in columns.items()})


def goodness(metric, given: Answers) -> float:
    return metric.score(given) * (1 if metric.higher_is_better else -1)


@every_metric
def test_what_is_right_is_best_and_the_more_is_wrong_the_worse(spec):
    metric = made(spec)
    right, little, much = (goodness(metric, judged(share)) for share in (0.0, 0.2, 0.9))
    assert right > little > much


@every_metric
def test_the_order_of_the_examples_makes_no_difference(spec):
    metric, given = made(spec), judged(0.3)
    mixed = chosen(given, np.random.default_rng(5).permutation(N))
    assert metric.score(mixed) == pytest.approx(metric.score(given), rel=1e-12)


@every_metric
def test_an_example_has_the_statistics_alone_that_it_has_among_others(spec):
    """So that whoever adds up other rows (a bucket, a resample) gets what they are worth."""
    metric, given = made(spec), judged(0.3)
    statistics = metric.statistics(given)
    assert statistics.dtype == np.float64
    assert len(statistics) == N
    alone = [metric.statistics(chosen(given, [row]))[0] for row in range(N)]
    np.testing.assert_allclose(statistics, alone)
    sums = np.stack([statistics[:10].sum(0), statistics.sum(0)])
    values = [metric.score(chosen(given, range(10))), metric.score(given)]
    np.testing.assert_allclose(metric.value(sums), values)


@every_metric
def test_its_interval_holds_its_value_and_is_the_same_for_the_same_seed(spec):
    metric, given = made(spec), judged(0.3)
    once, again = (evaluate(given, [metric], bootstrap=200)[metric.label] for _ in range(2))
    low, high = once.interval
    assert low < once.value < high
    assert once.value == metric.score(given)
    assert all(map(math.isfinite, (low, high)))
    assert (low, high) == again.interval


@every_metric
def test_its_signature_tells_all_that_decides_its_value(spec):
    metric, given = made(spec), judged(0.3)
    plain = build("metric", spec["name"])
    assert metric.name == plain.label == spec["name"]
    assert metric.signature(given).lower().startswith(spec["name"])
    assert "version:" in metric.signature(given)
    for option in options(type(metric)):
        assert hasattr(metric, option)
    if len(spec) > 1:
        assert metric.label != plain.label
        assert metric.signature(given) != plain.signature(given)

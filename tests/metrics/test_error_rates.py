"""Metrics implemented in seqloom, against values computed by hand or in plain Python; and invalid input."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqloom
from seqloom.errors import InputError, ShapeError
from seqloom.metrics import EvaluationData, Metric
from seqloom.registry import build, options, parts

from .helpers import make_data

MODEL = {
    "log_probs": np.log([0.5 * 0.25, 0.125]),
    "tokens": np.array([2, 1]),
    "correct": np.array([1, 1]),
}


def edits(a, b):
    """Levenshtein distance by dynamic programming."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    return int(table[-1, -1])


@pytest.mark.parametrize("name", parts("metric"))
def test_every_metric_has_name_label_statistics_and_signature(name):
    metric = build("metric", name)
    assert isinstance(metric, Metric)
    assert metric.name == metric.label == name
    assert all(hasattr(metric, option) for option in options(type(metric)))
    data = make_data(["a b c d", "c"], [["a b c d"], ["b"]], **MODEL)
    statistics = metric.statistics(data)
    assert statistics.dtype == np.float64
    assert len(statistics) == 2
    assert metric.value(statistics).shape == (2,)
    assert metric.signature(data).lower().startswith(name)
    better, worse = metric.value(statistics) * (1 if metric.higher_is_better else -1)
    assert name == "token_accuracy" or better > worse  # the first hypothesis is correct, and has more likely tokens


def test_non_default_options_are_in_label_and_signature():
    metric = build("metric", {"name": "cer", "lowercase": True})
    assert metric.label == "cer lowercase=True"
    signature = metric.signature(make_data(["a"], [["a", "b"]]))
    assert signature == f"cer|nrefs:2|lowercase:yes|version:seqloom-{seqloom.__version__}"


@pytest.mark.parametrize(
    ("hypothesis", "references", "matches"),
    [
        ("k æ t", ["k æ t"], True),
        ("k æ t", ["k a t", "k æ t"], True),
        ("k æ t", ["k a t", "k æ d"], False),
        ("k æ t", ["k æ t s"], False),
        ("kæt", ["k æ t"], False),
        (" k  æ t ", ["k æ t"], True),
        ("10\u00a0000", ["10 000"], False),
        ("K æ t", ["k æ t"], False),
        ("", ["k"], False),
        ("", [""], True),
    ],
)
def test_exact_match_and_sequence_error_rate(hypothesis, references, matches):
    data = make_data([hypothesis, "x", "x", "x"], [references, ["y"], ["x"], ["y"]])
    assert build("metric", "exact_match").score(data) == (50 if matches else 25)
    assert build("metric", "sequence_error_rate").score(data) == (50 if matches else 75)


@pytest.mark.parametrize(
    ("name", "strict", "lenient"), [("exact_match", 0, 100), ("sequence_error_rate", 100, 0), ("per", 50, 0)]
)
def test_lowercase_ignores_case(name, strict, lenient):
    data = make_data(["A b"], [["a b"]])
    assert build("metric", name).score(data) == strict
    assert build("metric", {"name": name, "lowercase": True}).score(data) == lenient


texts = st.lists(st.sampled_from(["a", "b", "tʃ", "aɪ"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_phoneme_and_character_error_rate_match_dynamic_programming(examples):
    data = make_data([h for h, _ in examples], [r for _, r in examples])
    for name, split in (("per", str.split), ("cer", list)):
        best = [min((edits(split(h), split(r)), -len(split(r))) for r in references) for h, references in examples]
        wrong, length = sum(e for e, _ in best), -sum(n for _, n in best)
        expected = 100 * wrong / length if length else 100 * (wrong > 0)
        assert build("metric", name).score(data) == pytest.approx(expected, rel=1e-12)


def test_edit_rate_uses_reference_with_fewest_edits_then_longest():
    metric = build("metric", "per")
    data = make_data(["a b c", "a b"], [["x y", "a b d", "a b"], ["a", "a b c", "a x"]])
    assert metric.statistics(data).tolist() == [[1, 3], [1, 3]]
    assert metric.score(data) == pytest.approx(100 * 2 / 6)


def test_loss_perplexity_and_token_accuracy_match_hand_computation():
    """Three tokens with probabilities ½, ¼ and ⅛, with product 2⁻⁶: 2 bits per token, so perplexity 4."""
    data = make_data(None, [["a"], ["b"]], **MODEL)
    assert build("metric", "loss").score(data) == pytest.approx(2 * np.log(2))
    assert build("metric", "perplexity").score(data) == pytest.approx(4)
    assert build("metric", "token_accuracy").score(data) == pytest.approx(200 / 3)


def test_perplexity_overflow_is_infinite():
    data = make_data(None, [["a"]], log_probs=np.array([-1e6]), tokens=np.array([1]))
    assert build("metric", "perplexity").score(data) == np.inf
    assert build("metric", "loss").score(data) == 1e6


@pytest.mark.parametrize("name", parts("metric"))
def test_missing_input_of_metric_is_an_error(name):
    metric = build("metric", name)
    text, model = make_data(["a"], [["a"]]), make_data(None, [["a"], ["b"]], **MODEL)
    have, have_not = (text, model) if metric.needs == "text" else (model, text)
    metric.statistics(have)
    with pytest.raises(InputError, match=f"^{name} "):
        metric.statistics(have_not)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"references": [["a"], []]}, InputError, "example 1 has no reference"),
        (
            {"references": ["a", "b"]},
            InputError,
            "references of example 0 are the string 'a': give a list of strings",
        ),
        ({"hypotheses": ["a"]}, ShapeError, "1 hypotheses for 2 references"),
        ({"sources": ["a"] * 3}, ShapeError, "3 sources for 2 references"),
        ({"source_lengths": np.array([1])}, ShapeError, "1 source_lengths for 2"),
        ({"tokens": np.array([1, 2, 3])}, ShapeError, "3 tokens for 2"),
        (
            {"hypotheses": [], "references": [], "sources": [], "source_lengths": np.array([])},
            InputError,
            "nothing to evaluate",
        ),
    ],
)
def test_inconsistent_evaluation_data_is_an_error(fields, error, message):
    good = {"hypotheses": ["a", "b"], "references": [["a"], ["b"]], "sources": ["a", "b"]}
    with pytest.raises(error) as raised:
        EvaluationData(**({**good, "source_lengths": np.array([1, 1])} | fields))
    assert message in str(raised.value)


def test_metric_options_are_keyword_only():
    for name, part in parts("metric").items():
        assert set(inspect.signature(part).parameters) == set(options(part)), name

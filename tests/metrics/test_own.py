"""Our own metrics, against their definitions done by hand or in plain Python; and what answers must be."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqloom
from seqloom.errors import InputError, SizeError
from seqloom.metrics import Answers, Metric
from seqloom.registry import build, options, parts

from .helpers import answers

MODEL = {
    "log_probs": np.log([0.5 * 0.25, 0.125]),
    "tokens": np.array([2, 1]),
    "correct": np.array([1, 1]),
}


def edits(a, b):
    """Levenshtein's distance by its table."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    return int(table[-1, -1])


@pytest.mark.parametrize("name", parts("metric"))
def test_every_metric_says_what_it_is(name):
    metric = build("metric", name)
    assert isinstance(metric, Metric)
    assert metric.name == metric.label == name
    assert all(hasattr(metric, option) for option in options(type(metric)))
    judged = answers(["a b c d", "c"], [["a b c d"], ["b"]], **MODEL)
    statistics = metric.statistics(judged)
    assert statistics.dtype == np.float64
    assert len(statistics) == 2
    assert metric.value(statistics).shape == (2,)
    assert metric.signature(judged).lower().startswith(name)
    better, worse = metric.value(statistics) * (1 if metric.higher_is_better else -1)
    assert name == "token_accuracy" or better > worse  # the first answer is right, and likelier token by token


def test_options_that_were_changed_are_in_label_and_signature():
    metric = build("metric", {"name": "ser", "unit": "character", "lowercase": True})
    assert metric.label == "ser unit=character lowercase=True"
    signature = metric.signature(answers(["a"], [["a", "b"]]))
    assert signature == f"ser|nrefs:2|unit:character|lowercase:yes|version:seqloom-{seqloom.__version__}"


@pytest.mark.parametrize(
    ("hypothesis", "references", "right"),
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
def test_an_answer_is_right_or_wrong(hypothesis, references, right):
    judged = answers([hypothesis, "x", "x", "x"], [references, ["y"], ["x"], ["y"]])
    assert build("metric", "exact").score(judged) == (50 if right else 25)
    assert build("metric", "wer").score(judged) == (50 if right else 75)


@pytest.mark.parametrize(("name", "strict", "lenient"), [("exact", 0, 100), ("wer", 100, 0), ("ser", 50, 0)])
def test_case_can_be_left_out_of_account(name, strict, lenient):
    judged = answers(["A b"], [["a b"]])
    assert build("metric", name).score(judged) == strict
    assert build("metric", {"name": name, "lowercase": True}).score(judged) == lenient


texts = st.lists(st.sampled_from(["a", "b", "tʃ", "aɪ"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_symbol_and_character_error_rate_against_the_table(examples):
    judged = answers([h for h, _ in examples], [r for _, r in examples])
    for unit, cut in (("symbol", str.split), ("character", list)):
        best = [min((edits(cut(h), cut(r)), -len(cut(r))) for r in references) for h, references in examples]
        wrong, length = sum(e for e, _ in best), -sum(n for _, n in best)
        wanted = 100 * wrong / length if length else 100 * (wrong > 0)
        assert build("metric", {"name": "ser", "unit": unit}).score(judged) == pytest.approx(wanted, rel=1e-12)


def test_the_best_reference_has_the_fewest_edits_and_is_the_longest_of_these():
    metric = build("metric", "ser")
    judged = answers(["a b c", "a b"], [["x y", "a b d", "a b"], ["a", "a b c", "a x"]])
    assert metric.statistics(judged).tolist() == [[1, 3], [1, 3]]
    assert metric.score(judged) == pytest.approx(100 * 2 / 6)


def test_loss_perplexity_and_token_accuracy_by_hand():
    """Three tokens with probabilities ½, ¼ and ⅛, in all 2⁻⁶: 2 bits a token, so four equally likely choices."""
    judged = answers(None, [["a"], ["b"]], **MODEL)
    assert build("metric", "loss").score(judged) == pytest.approx(2 * np.log(2))
    assert build("metric", "perplexity").score(judged) == pytest.approx(4)
    assert build("metric", "token_accuracy").score(judged) == pytest.approx(200 / 3)


def test_perplexity_beyond_all_floats_is_infinite():
    judged = answers(None, [["a"]], log_probs=np.array([-1e6]), tokens=np.array([1]))
    assert build("metric", "perplexity").score(judged) == np.inf
    assert build("metric", "loss").score(judged) == 1e6


@pytest.mark.parametrize("name", parts("metric"))
def test_what_a_metric_needs_and_misses_is_named(name):
    metric = build("metric", name)
    text, model = answers(["a"], [["a"]]), answers(None, [["a"], ["b"]], **MODEL)
    have, have_not = (text, model) if metric.needs == "text" else (model, text)
    metric.statistics(have)
    with pytest.raises(InputError, match=f"^{name} "):
        metric.statistics(have_not)


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"references": [["a"], []]}, InputError, "example 1 has no reference"),
        (
            {"references": ["a", "b"]},
            InputError,
            "references of example 0: a list of texts is wanted, not the text 'a'",
        ),
        ({"hypotheses": ["a"]}, SizeError, "1 hypotheses for 2 references"),
        ({"sources": ["a"] * 3}, SizeError, "3 sources for 2 references"),
        ({"source_lengths": np.array([1])}, SizeError, "1 source_lengths for 2"),
        ({"tokens": np.array([1, 2, 3])}, SizeError, "3 tokens for 2"),
        (
            {"hypotheses": [], "references": [], "sources": [], "source_lengths": np.array([])},
            InputError,
            "nothing to evaluate",
        ),
    ],
)
def test_answers_that_do_not_fit_are_refused(fields, error, says):
    good = {"hypotheses": ["a", "b"], "references": [["a"], ["b"]], "sources": ["a", "b"]}
    with pytest.raises(error) as raised:
        Answers(**({**good, "source_lengths": np.array([1, 1])} | fields))
    assert says in str(raised.value)


def test_metrics_have_options_by_keyword_only():
    for name, part in parts("metric").items():
        assert set(inspect.signature(part).parameters) == set(options(part)), name

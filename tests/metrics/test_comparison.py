"""Comparisons: the p-value against an enumeration of all exchanges and against sacreBLEU, and invalid input."""

import io
import itertools
import json

import numpy as np
import pytest
from rich.console import Console
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from seqloom.errors import ConfigError, InputError
from seqloom.metrics import EvaluationData, compare, resampling
from seqloom.registry import build

from .helpers import corrupted, make_data, sentences

EXACT_MATCH, LOSS, PER = (build("metric", name) for name in ("exact_match", "loss", "per"))


def likelihoods(log_probs):
    n = len(log_probs)
    return make_data(None, [["a"]] * n, log_probs=np.asarray(log_probs), tokens=np.ones(n, dtype=int))


@pytest.mark.parametrize("name", ["per", "bleu", "ter", "exact_match"])
def test_p_value_matches_enumeration_of_all_exchanges(name, monkeypatch):
    monkeypatch.setattr(resampling, "CELLS", 4000)  # several slices
    metric = build("metric", name)
    texts = sentences(9, 1, max_words=9)
    a, b = corrupted(texts, 0.2, 2), corrupted(texts, 0.4, 3)
    references = [[text] for text in texts]

    def difference(left, right):
        return abs(metric.score(make_data(left, references)) - metric.score(make_data(right, references)))

    real = difference(a, b)
    exchanged = []
    for coins in itertools.product([0, 1], repeat=9):
        left, right = zip(*((y, x) if c else (x, y) for c, x, y in zip(coins, a, b, strict=True)), strict=True)
        exchanged.append(difference(left, right))
    exact_p = np.mean([d >= real - 1e-9 for d in exchanged])
    found = compare(make_data(a, references), make_data(b, references), [metric], trials=4000).differences[0]
    assert exact_p > 0.02
    assert found.p_value == pytest.approx(exact_p, abs=4 * np.sqrt(exact_p * (1 - exact_p) / 4000) + 1 / 4000)


def test_p_value_approximates_sacrebleu():
    texts = sentences(150, 1)
    a, b = corrupted(texts, 0.30, 2), corrupted(texts, 0.33, 3)
    theirs = PairedTest([("a", a), ("b", b)], {"BLEU": BLEU(references=[texts])}, None, "ar", n_samples=2000)()
    references = [[text] for text in texts]
    ours = compare(make_data(a, references), make_data(b, references), [build("metric", "bleu")], trials=2000)
    (_, baseline), (_, other) = ((row["System"][i], row["BLEU"][i]) for row in [theirs[1]] for i in (0, 1))
    assert (ours.differences[0].a, ours.differences[0].b) == pytest.approx((baseline.score, other.score))
    assert ours.differences[0].p_value == pytest.approx(other.p_value, abs=0.04)


def test_p_value_is_uniform_under_null_hypothesis():
    random = np.random.default_rng(1)
    p = []
    for seed in range(300):
        hard = random.normal(-5, 2, size=60)  # difficulty common to both systems, which pairing removes
        a, b = (likelihoods(hard + random.normal(size=60)) for _ in range(2))
        p.append(compare(a, b, [LOSS], trials=300, seed=seed).differences[0].p_value)
    distance = np.abs(np.sort(p) - np.arange(1, 301) / 300).max()
    assert distance < 1.63 / np.sqrt(300)  # Kolmogorov–Smirnov test at the 1 % level


def test_significant_difference_names_better_system():
    texts = sentences(200, 1)
    references = [[text] for text in texts]
    good, bad = make_data(corrupted(texts, 0.1, 2), references), make_data(corrupted(texts, 0.3, 3), references)
    for a, b, best in ((good, bad, 0), (bad, good, 1)):
        for difference in compare(a, b, [build("metric", name) for name in ("bleu", "per")], trials=999).differences:
            assert difference.p_value == 1 / 1000
            assert difference.better == best
            assert difference.delta == difference.b - difference.a != 0


def test_system_compared_with_itself_has_p_value_1():
    texts = sentences(20, 1)
    a = make_data(corrupted(texts, 0.3, 2), [[text] for text in texts])
    for difference in compare(a, a, [build("metric", name) for name in ("bleu", "ter")], trials=50).differences:
        assert (difference.delta, difference.p_value, difference.better) == (0, 1, None)


def test_infinite_difference_is_not_significant():
    a, b = likelihoods([-1.0, -2.0]), likelihoods([-1.0, -np.inf])
    for pair in ((a, b), (b, b)):
        comparison = compare(*pair, [LOSS, build("metric", "perplexity")], trials=10)
        assert [d.better for d in comparison.differences] == [None, None]
        saved = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
        assert saved["metrics"]["loss"]["p_value"] is None


def test_seed_determines_p_value():
    texts = sentences(30, 1)
    references = [[text] for text in texts]
    a, b = make_data(corrupted(texts, 0.3, 2), references), make_data(corrupted(texts, 0.3, 3), references)
    p = [compare(a, b, [PER], trials=500, seed=seed).differences[0].p_value for seed in (1, 1, 2)]
    assert p[0] == p[1] != p[2]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (make_data(["a"], [["a"]]), make_data(["a", "b"], [["a"], ["b"]]), "1 and 2 examples can't be compared"),
        (
            make_data(["a"], [["a"]]),
            make_data(["a"], [["b"]]),
            r"the references of example 0 differ, \['a'\] and \['b'\]",
        ),
        (
            make_data(["a"], [["a"]]),
            EvaluationData(["a"], [["a"]], ["y"], np.ones(1, int)),
            "the sources of example 0 differ",
        ),
    ],
)
def test_comparison_of_different_examples_is_an_error(a, b, message):
    with pytest.raises(InputError, match=message):
        compare(a, b, [EXACT_MATCH])


def test_references_as_list_equal_references_as_tuple():
    assert (
        compare(make_data(["a"], [["a"]]), make_data(["b"], [("a",)]), [EXACT_MATCH], trials=9).differences[0].delta
        == -100
    )


def test_token_metric_with_different_tokenizations_is_an_error():
    a, b = likelihoods([-1.0]), make_data(None, [["a"]], log_probs=np.array([-1.0]), tokens=np.array([2]))
    with pytest.raises(InputError, match=r"the two models tokenize the references differently.*remove loss"):
        compare(a, b, [LOSS])


def test_zero_trials_is_an_error():
    with pytest.raises(ConfigError, match="trials=0 is invalid"):
        compare(make_data(["a"], [["a"]]), make_data(["a"], [["a"]]), [EXACT_MATCH], trials=0)


def test_comparison_table_shows_system_names():
    texts = sentences(100, 1)
    references = [[text] for text in texts]
    a, b = make_data(corrupted(texts, 0.1, 2), references), make_data(corrupted(texts, 0.4, 3), references)
    comparison = compare(a, b, [PER], names=("runs/[red]", "runs/b"), trials=2000)
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison)
    heading, row, *rest = console.file.getvalue().splitlines()
    found = comparison.differences[0]
    assert heading.split() == ["metric", "runs/[red]", "runs/b", "difference", "p-value", "better"]
    assert row.split() == [
        "per",
        f"{found.a:.2f}",
        f"{found.b:.2f}",
        f"{found.delta:+.2f}",
        "<",
        "0.001",
        "runs/[red]",
    ]
    assert found.signature in rest
    assert comparison.to_json()["metrics"]["per"]["better"] == "runs/[red]"

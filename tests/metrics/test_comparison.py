"""Comparisons: a p-value that is right where all exchanges can be counted, and what is refused."""

import io
import itertools
import json

import numpy as np
import pytest
from rich.console import Console
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from seqloom.errors import InputError, OptionError
from seqloom.metrics import Answers, compare, resampling
from seqloom.registry import build

from .helpers import answers, sentences, spoilt

EXACT, LOSS, SER = (build("metric", name) for name in ("exact", "loss", "ser"))


def likelihoods(log_probs):
    n = len(log_probs)
    return answers(None, [["a"]] * n, log_probs=np.asarray(log_probs), tokens=np.ones(n, dtype=int))


@pytest.mark.parametrize("name", ["ser", "bleu", "ter", "exact"])
def test_p_is_the_share_of_all_exchanges_with_so_great_a_difference(name, monkeypatch):
    monkeypatch.setattr(resampling, "CELLS", 4000)  # several slices
    metric = build("metric", name)
    texts = sentences(9, 1, longest=9)
    a, b = spoilt(texts, 0.2, 2), spoilt(texts, 0.4, 3)
    references = [[text] for text in texts]

    def difference(left, right):
        return abs(metric.score(answers(left, references)) - metric.score(answers(right, references)))

    real = difference(a, b)
    exchanged = []
    for coins in itertools.product([0, 1], repeat=9):
        left, right = zip(*((y, x) if c else (x, y) for c, x, y in zip(coins, a, b, strict=True)), strict=True)
        exchanged.append(difference(left, right))
    exact_p = np.mean([d >= real - 1e-9 for d in exchanged])
    found = compare(answers(a, references), answers(b, references), [metric], trials=4000).differences[0]
    assert exact_p > 0.02
    assert found.p_value == pytest.approx(exact_p, abs=4 * np.sqrt(exact_p * (1 - exact_p) / 4000) + 1 / 4000)


def test_p_is_about_sacrebleus():
    texts = sentences(150, 1)
    a, b = spoilt(texts, 0.30, 2), spoilt(texts, 0.33, 3)
    theirs = PairedTest([("a", a), ("b", b)], {"BLEU": BLEU(references=[texts])}, None, "ar", n_samples=2000)()
    references = [[text] for text in texts]
    ours = compare(answers(a, references), answers(b, references), [build("metric", "bleu")], trials=2000)
    (_, baseline), (_, other) = ((row["System"][i], row["BLEU"][i]) for row in [theirs[1]] for i in (0, 1))
    assert (ours.differences[0].a, ours.differences[0].b) == pytest.approx((baseline.score, other.score))
    assert ours.differences[0].p_value == pytest.approx(other.p_value, abs=0.04)


def test_p_is_uniform_where_there_is_no_difference():
    random = np.random.default_rng(1)
    p = []
    for seed in range(300):
        hard = random.normal(-5, 2, size=60)  # what both find hard: the pairing takes it out
        a, b = (likelihoods(hard + random.normal(size=60)) for _ in range(2))
        p.append(compare(a, b, [LOSS], trials=300, seed=seed).differences[0].p_value)
    distance = np.abs(np.sort(p) - np.arange(1, 301) / 300).max()
    assert distance < 1.63 / np.sqrt(300)  # Kolmogorov and Smirnov at 1 %


def test_a_real_difference_is_found_and_the_better_one_named():
    texts = sentences(200, 1)
    references = [[text] for text in texts]
    good, bad = answers(spoilt(texts, 0.1, 2), references), answers(spoilt(texts, 0.3, 3), references)
    for a, b, best in ((good, bad, 0), (bad, good, 1)):
        for difference in compare(a, b, [build("metric", name) for name in ("bleu", "ser")], trials=999).differences:
            assert difference.p_value == 1 / 1000
            assert difference.better == best
            assert difference.delta == difference.b - difference.a != 0


def test_a_system_and_itself_do_not_differ():
    texts = sentences(20, 1)
    a = answers(spoilt(texts, 0.3, 2), [[text] for text in texts])
    for difference in compare(a, a, [build("metric", name) for name in ("bleu", "ter")], trials=50).differences:
        assert (difference.delta, difference.p_value, difference.better) == (0, 1, None)


def test_an_infinite_difference_is_no_evidence():
    a, b = likelihoods([-1.0, -2.0]), likelihoods([-1.0, -np.inf])
    for pair in ((a, b), (b, b)):
        comparison = compare(*pair, [LOSS, build("metric", "perplexity")], trials=10)
        assert [d.better for d in comparison.differences] == [None, None]
        kept = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
        assert kept["metrics"]["loss"]["p_value"] is None


def test_the_seed_decides():
    texts = sentences(30, 1)
    references = [[text] for text in texts]
    a, b = answers(spoilt(texts, 0.3, 2), references), answers(spoilt(texts, 0.3, 3), references)
    p = [compare(a, b, [SER], trials=500, seed=seed).differences[0].p_value for seed in (1, 1, 2)]
    assert p[0] == p[1] != p[2]


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (answers(["a"], [["a"]]), answers(["a", "b"], [["a"], ["b"]]), "1 and 2 examples can't be compared"),
        (
            answers(["a"], [["a"]]),
            answers(["a"], [["b"]]),
            r"the references of example 0 differ, \['a'\] and \['b'\]",
        ),
        (answers(["a"], [["a"]]), Answers(["a"], [["a"]], ["y"], np.ones(1, int)), "the sources of example 0 differ"),
    ],
)
def test_answers_to_other_questions_are_refused(a, b, says):
    with pytest.raises(InputError, match=says):
        compare(a, b, [EXACT])


def test_a_list_and_a_tuple_of_references_are_the_same():
    assert compare(answers(["a"], [["a"]]), answers(["b"], [("a",)]), [EXACT], trials=9).differences[0].delta == -100


def test_token_metrics_of_different_tokens_are_refused():
    a, b = likelihoods([-1.0]), answers(None, [["a"]], log_probs=np.array([-1.0]), tokens=np.array([2]))
    with pytest.raises(InputError, match=r"the two models cut the targets into different ones.*leave loss out"):
        compare(a, b, [LOSS])


def test_no_trials_are_refused():
    with pytest.raises(OptionError, match="trials=0"):
        compare(answers(["a"], [["a"]]), answers(["a"], [["a"]]), [EXACT], trials=0)


def test_a_comparison_is_shown_with_the_systems_names():
    texts = sentences(100, 1)
    references = [[text] for text in texts]
    a, b = answers(spoilt(texts, 0.1, 2), references), answers(spoilt(texts, 0.4, 3), references)
    comparison = compare(a, b, [SER], names=("runs/[red]", "runs/b"), trials=2000)
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison)
    heading, row, *rest = console.file.getvalue().splitlines()
    found = comparison.differences[0]
    assert heading.split() == ["metric", "runs/[red]", "runs/b", "difference", "p", "better"]
    assert row.split() == [
        "ser",
        f"{found.a:.2f}",
        f"{found.b:.2f}",
        f"{found.delta:+.2f}",
        "<",
        "0.001",
        "runs/[red]",
    ]
    assert found.signature in rest
    assert comparison.to_json()["metrics"]["ser"]["better"] == "runs/[red]"

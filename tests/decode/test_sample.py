"""Sampling: frequencies, truncation, and independence of the batch."""

import itertools
import math
from collections import Counter

import pytest
import torch

from seqloom import Batch
from seqloom.batch import BOS, EOS
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.errors import ConfigError, UnknownNameError
from seqloom.registry import build
from tests.decode.reference import BY_HAND, CONTENT, TableModel, log_probs, random_table, real_model

ALONE = Batch.from_lists(None, [[0]])


def reference_distribution(p: list[float], options: dict) -> list[float]:
    """The sampling distribution in plain Python, without PAD and BOS."""
    q = {v: x ** (1 / options.get("temperature", 1.0)) for v, x in enumerate(p) if v >= EOS and x > 0}
    ranked = sorted(q, key=lambda v: -q[v])[: options.get("top_k")]
    if "top_p" in options:
        ranked = ranked[: prefix_length([q[v] for v in ranked], options["top_p"])]
    if "typical_p" in options:
        total = sum(q[v] for v in ranked)
        entropy = -sum(q[v] / total * math.log(q[v] / total) for v in ranked)
        ranked.sort(key=lambda v: abs(-math.log(q[v] / total) - entropy))
        ranked = ranked[: prefix_length([q[v] for v in ranked], options["typical_p"])]
    if "min_p" in options:
        ranked = [v for v in ranked if q[v] >= options["min_p"] * max(q[u] for u in ranked)]
    total = sum(q[v] for v in ranked)
    return [q[v] / total if v in ranked else 0.0 for v in range(len(p))]


def prefix_length(q: list[float], mass: float) -> int:
    """The length of the shortest prefix with this fraction of the sum."""
    return next(n for n, share in enumerate(itertools.accumulate(q), 1) if share >= mass * sum(q))


def chi_square_p_value(counts: Counter, expected: dict) -> float:
    """The p-value of Pearson's chi-square test; outcomes expected fewer than 5 times are merged."""
    n = sum(counts.values())
    assert set(counts) <= {key for key, p in expected.items() if p > 0}
    rare = [key for key, p in expected.items() if p * n < 5]
    pairs = [(counts[key], p * n) for key, p in expected.items() if key not in rare]
    rest = sum(counts[key] for key in rare), sum(expected[key] for key in rare) * n
    if rest[1] > 0:
        pairs.append(rest)
    statistic = sum((count - mean) ** 2 / mean for count, mean in pairs)
    half = torch.tensor([(len(pairs) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 2},
        {"top_p": 0.7},
        {"top_k": 3, "top_p": 0.8},
        {"typical_p": 0.5},
        {"min_p": 0.3},
        {"temperature": 1.5, "top_k": 3, "typical_p": 0.8, "min_p": 0.6},
    ],
    ids=str,
)
@pytest.mark.parametrize("table", [torch.tensor(BY_HAND, dtype=torch.float64), random_table(7, sharpness=1.5)[0]])
def test_frequencies_of_samples_match_their_probabilities(table, options):
    q = [reference_distribution(row, options) for row in table.tolist()]
    expected = {}
    for n in range(3):
        for tokens in itertools.product(CONTENT, repeat=n):
            path = (BOS, *tokens)
            p = math.prod(q[a][b] for a, b in itertools.pairwise(path))
            expected[tokens, True] = p * q[path[-1]][EOS]
            if n == 2:  # reference_distribution at the maximum length
                expected[tokens, False] = p * (1 - q[path[-1]][EOS])
    (found,) = Sample(samples=4000, max_length=2, seed=1, **options)(TableModel(table), ALONE)
    assert len(found) == 4000
    assert chi_square_p_value(Counter((tuple(h.tokens), h.finished) for h in found), expected) > 0.001
    ranks = [(h.finished, h.log_prob) for h in found]
    assert ranks == sorted(ranks, reverse=True)
    for h in found[::500]:  # the model's log-probabilities, before temperature and truncation
        tokens = [*h.tokens, EOS] if h.finished else h.tokens
        assert h.token_log_probs == pytest.approx(log_probs(table, tokens), abs=1e-12)


@pytest.mark.parametrize(
    ("short", "truncate"),
    [
        ({"top_k": 2}, {"name": "top_k", "k": 2}),
        ({"top_p": 0.6}, {"name": "top_p", "mass": 0.6}),
        ({"typical_p": 0.6}, [{"name": "typical_p", "mass": 0.6}]),
        ({"min_p": 0.1}, "min_p"),
        ({"top_k": 3, "min_p": 0.6}, [{"name": "top_k", "k": 3}, {"name": "min_p", "share": 0.6}]),
    ],
    ids=str,
)
@pytest.mark.parametrize("search", ["sample", "mbr"])
def test_truncation_options_equal_truncate(search, short, truncate):
    model, rest = TableModel(random_table(3)), {"name": search, "samples": 50, "max_length": 5}
    found, expected = (build("search", rest | o)(model, ALONE)[0] for o in ({"truncate": truncate}, short))
    assert [h.tokens for h in found] == [h.tokens for h in expected]


def test_unknown_truncation_raises_error():
    with pytest.raises(UnknownNameError, match="unknown truncation 'top_q'"):
        Sample(truncate=["top_q"])


def test_samples_of_different_seeds_are_independent():
    model, batch = TableModel(BY_HAND), ALONE
    first = Counter(tuple(Sample(seed=seed, max_length=1)(model, batch)[0][0].tokens) for seed in range(600))
    row = BY_HAND[BOS]
    assert chi_square_p_value(first, {(): row[EOS], (3,): row[3], (4,): row[4], (5,): row[5]}) > 0.001


def test_same_seed_gives_same_samples_for_any_number_of_them():
    model = TableModel(random_table(3))
    draws = [Sample(samples=n, seed=9)(model, ALONE)[0] for n in (20, 20, 90)]
    few, again, many = (Counter(tuple(h.tokens) for h in found) for found in draws)
    assert few == again
    assert few <= many
    assert len(many) > 10


def test_samples_are_independent_of_the_batch():
    """Rows move up when others finish, except in a batch with a sentence that never ends."""
    endless = random_table(5)
    endless[..., EOS] = 0
    model, search = TableModel(random_table(4), endless), Sample(samples=30, max_length=12)
    (alone,) = search(model, Batch.from_lists(None, [[0]]))
    in_batch, _ = search(model, Batch.from_lists(None, [[0], [1]]))
    assert [h.tokens for h in alone] == [h.tokens for h in in_batch]
    assert len({len(h.tokens) for h in alone}) > 3


def test_lowest_temperature_equals_greedy_search():
    model, batch = real_model("luong").float(), Batch.from_lists(None, [[4, 5, 6], [7]])
    greedy, sampled = (search(model, batch) for search in (Greedy(), Sample(temperature=1e-6)))
    assert [best.tokens for best, *_ in sampled] == [best.tokens for best, *_ in greedy]


@pytest.mark.parametrize(
    "search",
    [
        {"name": "sample", "temperature": math.inf},
        {"name": "sample", "temperature": 1e-40},
        {"name": "mbr", "temperature": math.nan},
        {"name": "beam", "coverage_penalty": math.inf},
        {"name": "diverse_beam", "diversity_penalty": math.inf},
    ],
)
def test_options_that_are_not_finite_raise_errors(search):
    with pytest.raises(ConfigError, match=r"finite|at least"):
        build("search", search)

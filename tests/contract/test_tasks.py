"""The contract of every registered task: disjoint parts, one target per source, the same pairs for the same seed."""

import numpy as np
import pytest

from seqloom.metrics import EvaluationData
from seqloom.registry import build, option_docs, options, parts
from seqloom.tasks import Task

SIZES = {"train": 200, "dev": 20, "test": 30}


def small(name: str, **more) -> Task:
    return build("task", {"name": name, **SIZES, **more})


@pytest.fixture(params=parts("task"))
def name(request) -> str:
    return request.param


def test_parts_have_the_requested_number_of_pairs(name):
    task = small(name)
    assert {part: len(getattr(task, part)) for part in SIZES} == SIZES
    for part in SIZES:
        for source, target in getattr(task, part):
            assert source.strip() == source != ""
            assert target.strip() == target != ""


def test_no_source_is_in_two_parts(name):
    """For all seeds and sizes, since a model trained with one may be tested with another."""
    tasks = [small(name), small(name, seed=2, train=1000, dev=200, test=200)]
    train, dev, test = ({source for task in tasks for source, _ in task.pairs(part)} for part in SIZES)
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_every_source_has_one_target(name):
    targets: dict[str, str] = {}
    for seed in (1, 2):
        for source, target in small(name, seed=seed, train=1000).train:
            assert targets.setdefault(source, target) == target


def test_pairs_depend_on_the_seed_only(name):
    first, again, other, longer = small(name), small(name), small(name, seed=2), small(name, train=300)
    for part in SIZES:
        assert first.pairs(part) == again.pairs(part)
        assert first.pairs(part) != other.pairs(part)
    assert longer.train[:200] == first.train
    assert longer.test == first.test


def test_tokenizers_are_lossless(name):
    task = small(name)
    for side, column in zip(("source", "target"), zip(*task.train, strict=True), strict=True):
        tokenizer = build("tokenizer", task.fields[side]).train(iter(column))
        assert tokenizer.decode(tokenizer.encode([column[0]])[0]) == column[0]


def test_metric_prefers_the_right_targets(name):
    task = small(name)
    targets = [target for _, target in task.test]
    metric = build("metric", task.metric)
    sources, references = [source for source, _ in task.test], [(target,) for target in targets]
    lengths = np.array([len(source) for source in sources])
    right = EvaluationData(targets, references, sources, lengths)
    wrong = EvaluationData([targets[-1], *targets[:-1]], references, sources, lengths)
    assert (metric.score(right) > metric.score(wrong)) == metric.higher_is_better


def test_alignment_has_one_source_token_per_target_token(name):
    task = small(name)
    tokenizers = [
        build("tokenizer", task.fields[side]).train(iter(column))
        for side, column in zip(("source", "target"), zip(*task.train, strict=True), strict=True)
    ]
    for source, target in task.train[:20]:
        alignment = task.alignment(source, target)
        if alignment is None:
            pytest.skip("the task has no alignment")
        steps = [
            len(tokenizer.encode([text])[0]) for tokenizer, text in zip(tokenizers, (source, target), strict=True)
        ]
        assert len(alignment) == steps[1]
        assert all(0 <= position < steps[0] for position in alignment)


def test_options_are_documented(name):
    task = parts("task")[name]
    assert options(task).keys() <= option_docs(task).keys()

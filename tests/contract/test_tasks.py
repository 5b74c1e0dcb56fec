"""Every registered task: disjoint parts, one target to a source, the same pairs for the same seed."""

import numpy as np
import pytest

from seqloom.metrics import Answers
from seqloom.registry import build, explained, options, parts
from seqloom.tasks import Task

SIZES = {"train": 200, "dev": 20, "test": 30}


def small(name: str, **more) -> Task:
    return build("task", {"name": name, **SIZES, **more})


@pytest.fixture(params=parts("task"))
def name(request) -> str:
    return request.param


def test_it_has_as_many_pairs_as_it_is_asked_for(name):
    task = small(name)
    assert {part: len(getattr(task, part)) for part in SIZES} == SIZES
    for part in SIZES:
        for source, target in getattr(task, part):
            assert source.strip() == source != ""
            assert target.strip() == target != ""


def test_no_source_is_in_two_parts(name):
    """Whatever the seed and the sizes: a model trained on one may be tested on another."""
    tasks = [small(name), small(name, seed=2, train=1000, dev=200, test=200)]
    train, dev, test = ({source for task in tasks for source, _ in task.pairs(part)} for part in SIZES)
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_a_source_has_one_target(name):
    targets: dict[str, str] = {}
    for seed in (1, 2):
        for source, target in small(name, seed=seed, train=1000).train:
            assert targets.setdefault(source, target) == target


def test_the_seed_decides(name):
    first, again, other, longer = small(name), small(name), small(name, seed=2), small(name, train=300)
    for part in SIZES:
        assert first.pairs(part) == again.pairs(part)
        assert first.pairs(part) != other.pairs(part)
    assert longer.train[:200] == first.train
    assert longer.test == first.test


def test_its_tokenizers_give_its_texts_back(name):
    task = small(name)
    for side, column in zip(("source", "target"), zip(*task.train, strict=True), strict=True):
        tokenizer = build("tokenizer", task.fields[side]).train(iter(column))
        assert tokenizer.decode(tokenizer.encode([column[0]])[0]) == column[0]


def test_its_metric_prefers_its_targets_to_others(name):
    task = small(name)
    targets = [target for _, target in task.test]
    metric = build("metric", task.metric)
    sources, references = [source for source, _ in task.test], [(target,) for target in targets]
    lengths = np.array([len(source) for source in sources])
    right = Answers(targets, references, sources, lengths)
    wrong = Answers([targets[-1], *targets[:-1]], references, sources, lengths)
    assert (metric.score(right) > metric.score(wrong)) == metric.higher_is_better


def test_its_alignment_is_one_source_token_to_each_target_token(name):
    task = small(name)
    tokenizers = [
        build("tokenizer", task.fields[side]).train(iter(column))
        for side, column in zip(("source", "target"), zip(*task.train, strict=True), strict=True)
    ]
    for source, target in task.train[:20]:
        alignment = task.alignment(source, target)
        if alignment is None:
            pytest.skip("the task does not know it")
        steps = [
            len(tokenizer.encode([text])[0]) for tokenizer, text in zip(tokenizers, (source, target), strict=True)
        ]
        assert len(alignment) == steps[1]
        assert all(0 <= position < steps[0] for position in alignment)


def test_it_explains_its_options(name):
    task = parts("task")[name]
    assert options(task).keys() <= explained(task).keys()

"""What every registered task must do."""

import pytest

from seqloom.registry import build, find, parts

SIZES = {"train": 200, "dev": 30, "test": 40}
every_task = pytest.mark.parametrize("name", parts("task"))


def made(name, **more):
    """The three parts of a task by name, as lists of pairs."""
    task = build("task", {"name": name, **SIZES, **more})
    return {part: list(getattr(task, part)) for part in SIZES}


@every_task
def test_it_has_as_many_pairs_of_text_as_asked_for(name):
    for part, pairs in made(name).items():
        assert len(pairs) == SIZES[part]
        for source, target in pairs:
            assert isinstance(source, str)
            assert isinstance(target, str)
            assert source.strip()
            assert target.strip()


@every_task
def test_the_seed_decides(name):
    assert made(name, seed=3) == made(name, seed=3)
    once, other = made(name, seed=3), made(name, seed=4)
    assert all(once[part] != other[part] for part in SIZES)


@every_task
def test_no_source_is_in_two_parts(name):
    """Nor in those of another seed: a model trained on one may be judged by another."""
    once, other = made(name, seed=3), made(name, seed=4)
    train, dev, test = ({source for made_ in (once, other) for source, _ in made_[part]} for part in SIZES)
    assert not train & dev
    assert not train & test
    assert not dev & test


@every_task
def test_what_suits_it_is_registered(name):
    task = find("task", name)
    assert task.tokenizer in parts("tokenizer")
    assert task.metric in parts("metric")

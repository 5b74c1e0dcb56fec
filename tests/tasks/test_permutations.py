"""Permutation tasks: targets, alignments and invalid options."""

import re

import pytest

from seqloom.errors import ConfigError
from seqloom.registry import build
from seqloom.tasks.base import part_of


@pytest.mark.parametrize("name", ["copy", "reverse", "reorder"])
def test_target_follows_from_source_and_alignment(name):
    task = build("task", {"name": name, "train": 200})
    for source, target in task.train:
        tokens = [text.split() if name == "reorder" else list(text) for text in (source, target)]
        alignment = task.alignment(source, target)
        assert sorted(alignment) == list(range(len(tokens[0])))
        assert [tokens[0][position] for position in alignment] == tokens[1]


def test_reverse_and_copy():
    sizes = {"train": 300, "shortest": 2, "longest": 7, "alphabet": "aäb"}
    for source, target in build("task", {"name": "reverse", **sizes}).train:
        assert target == source[::-1]
        assert set(source) <= set("aäb")
    pairs = build("task", {"name": "copy", **sizes}).train
    assert all(source == target for source, target in pairs)
    assert {len(source) for source, _ in pairs} == set(range(2, 8))


def test_reorder_moves_verbs_and_adjectives():
    """Against an implementation with regular expressions instead of sorting."""
    task = build("task", {"name": "reorder", "train": 500})
    for source, target in task.train:
        clauses = []
        for clause in source.split(" kaj "):
            subject, verb, object_ = re.fullmatch(r"((?:\w+a )*\w+o) (\w+as) ((?:\w+a )*\w+o)", clause).groups()
            clauses.append(" ".join([*subject.split()[::-1], *object_.split()[::-1], verb]))
        assert target == " kaj ".join(clauses)
    counts = {len(source.split(" kaj ")) for source, _ in task.train}
    assert counts == {1, 2, 3}


def test_options_of_reorder():
    task = build("task", {"name": "reorder", "train": 300, "clauses": 1, "adjectives": 0, "words": 4})
    words = {word for source, _ in task.train for word in source.split()}
    assert len(words) == 4 + 4
    assert all(len(source.split()) == 3 for source, _ in task.train)


def test_a_tenth_of_the_sources_each_is_for_validation_and_test():
    parts = [part_of(str(n)) for n in range(10_000)]
    assert parts.count("dev") == pytest.approx(1000, abs=100)
    assert parts.count("test") == pytest.approx(1000, abs=100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shortest": 9, "longest": 3}, "shortest=9 is greater than longest=3"),
        ({"alphabet": "a b"}, "alphabet='a b'"),
        ({"alphabet": ""}, "alphabet=''"),
        ({"train": 0}, "train=0"),
        ({"alphabet": "a", "shortest": 1, "longest": 1}, "allow longer sources, or more symbols"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ConfigError) as raised:
        [build("task", {"name": "copy", **options}).pairs(part) for part in ("train", "dev", "test")]
    assert message in str(raised.value)

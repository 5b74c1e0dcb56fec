"""Tasks that put a sequence in another order: what the order is, and what is refused."""

import re

import pytest

from seqloom.errors import OptionError
from seqloom.registry import build
from seqloom.tasks.base import part_of


@pytest.mark.parametrize("name", ["copy", "reverse", "reorder"])
def test_the_target_is_what_the_alignment_says(name):
    task = build("task", {"name": name, "train": 200})
    for source, target in task.train:
        tokens = [text.split() if name == "reorder" else list(text) for text in (source, target)]
        alignment = task.alignment(source, target)
        assert sorted(alignment) == list(range(len(tokens[0])))
        assert [tokens[0][position] for position in alignment] == tokens[1]


def test_a_string_backwards_and_as_it_is():
    sizes = {"train": 300, "shortest": 2, "longest": 7, "alphabet": "aäb"}
    for source, target in build("task", {"name": "reverse", **sizes}).train:
        assert target == source[::-1]
        assert set(source) <= set("aäb")
    pairs = build("task", {"name": "copy", **sizes}).train
    assert all(source == target for source, target in pairs)
    assert {len(source) for source, _ in pairs} == set(range(2, 8))


def test_verbs_go_last_and_adjectives_behind_their_nouns():
    """By rewriting the text with regular expressions instead of sorting its words."""
    task = build("task", {"name": "reorder", "train": 500})
    for source, target in task.train:
        clauses = []
        for clause in source.split(" kaj "):
            subject, verb, object_ = re.fullmatch(r"((?:\w+a )*\w+o) (\w+as) ((?:\w+a )*\w+o)", clause).groups()
            clauses.append(" ".join([*subject.split()[::-1], *object_.split()[::-1], verb]))
        assert target == " kaj ".join(clauses)
    counts = {len(source.split(" kaj ")) for source, _ in task.train}
    assert counts == {1, 2, 3}


def test_the_options_of_a_sentence():
    task = build("task", {"name": "reorder", "train": 300, "clauses": 1, "adjectives": 0, "words": 4})
    words = {word for source, _ in task.train for word in source.split()}
    assert len(words) == 4 + 4
    assert all(len(source.split()) == 3 for source, _ in task.train)


def test_a_tenth_each_is_for_validation_and_test():
    parts = [part_of(str(n)) for n in range(10_000)]
    assert parts.count("dev") == pytest.approx(1000, abs=100)
    assert parts.count("test") == pytest.approx(1000, abs=100)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shortest": 9, "longest": 3}, "shortest=9 is greater than longest=3"),
        ({"alphabet": "a b"}, "alphabet='a b'"),
        ({"alphabet": ""}, "alphabet=''"),
        ({"train": 0}, "train=0"),
        ({"alphabet": "a", "shortest": 1, "longest": 1}, "allow longer ones, or more symbols"),
    ],
)
def test_what_makes_no_sense_is_refused(options, says):
    with pytest.raises(OptionError) as raised:
        [build("task", {"name": "copy", **options}).pairs(part) for part in ("train", "dev", "test")]
    assert says in str(raised.value)

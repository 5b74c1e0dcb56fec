"""Holding out a part of the training data."""

import pytest

from seqloom.data.examples import Example, Pairs
from seqloom.data.holdout import hold_out
from seqloom.data.prepare import prepare
from seqloom.data.readers import Files
from seqloom.errors import InputError

EXAMPLES = [Example(f"s{n}", f"t{n}") for n in range(200)]
GIVEN = Pairs(EXAMPLES)


def test_every_example_is_on_one_side():
    left, held = hold_out(GIVEN, seed=1)
    assert len(held) == 10
    assert sorted([*left.read(), *held], key=str) == sorted(EXAMPLES, key=str)
    assert list(left.read()) == list(left.read())


def test_files_are_held_out_like_lists(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{e.source}\t{e.target}\n" for e in EXAMPLES), encoding="utf-8")
    left, held = hold_out(Files.of(str(path)), seed=1)
    other, same = hold_out(GIVEN, seed=1)
    assert (list(left.read()), held) == (list(other.read()), same)


def test_the_seed_decides():
    assert hold_out(GIVEN, seed=1)[1] == hold_out(GIVEN, seed=1)[1]
    assert hold_out(GIVEN, seed=1)[1] != hold_out(GIVEN, seed=2)[1]


def test_too_few_are_refused():
    with pytest.raises(InputError, match="3 pairs are too few"):
        hold_out(Pairs(EXAMPLES[:3]), seed=1)


def test_what_is_left_is_known_by_its_file_and_by_what_was_skipped(tmp_path):
    """The facts of a corpus name both, whether the dev set was held out or given."""
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{e.source}\t{e.target}\n" for e in EXAMPLES) + "\tx\n", encoding="utf-8")
    left, dev = hold_out(Files.of(str(path)), seed=1)
    facts = prepare(tmp_path / "corpus", left, dev, source="character", target="character").facts["train"]
    assert [file["path"] for file in facts["files"]] == [str(path)]
    assert facts["skipped"] == {"empty": 1}

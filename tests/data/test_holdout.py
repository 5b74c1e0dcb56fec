"""Validation sets that are held out from the training data."""

import pytest

from seqloom.data.examples import Example, Pairs
from seqloom.data.holdout import hold_out
from seqloom.data.prepare import prepare
from seqloom.data.readers import Files
from seqloom.errors import InputError

EXAMPLES = [Example(f"s{n}", f"t{n}") for n in range(200)]
GIVEN = Pairs(EXAMPLES)


def test_splits_partition_the_examples():
    train, dev = hold_out(GIVEN, seed=1)
    assert len(dev) == 10
    assert sorted([*train.read(), *dev], key=str) == sorted(EXAMPLES, key=str)
    assert list(train.read()) == list(train.read())


def test_files_and_lists_are_split_identically(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{e.source}\t{e.target}\n" for e in EXAMPLES), encoding="utf-8")
    train, dev = hold_out(Files.of(str(path)), seed=1)
    train_of_list, dev_of_list = hold_out(GIVEN, seed=1)
    assert (list(train.read()), dev) == (list(train_of_list.read()), dev_of_list)


def test_split_depends_on_the_seed():
    assert hold_out(GIVEN, seed=1)[1] == hold_out(GIVEN, seed=1)[1]
    assert hold_out(GIVEN, seed=1)[1] != hold_out(GIVEN, seed=2)[1]


def test_too_few_pairs_are_rejected():
    with pytest.raises(InputError, match="3 pairs are too few"):
        hold_out(Pairs(EXAMPLES[:3]), seed=1)


def test_metadata_has_files_and_skipped_examples_of_the_training_split(tmp_path):
    """As for a corpus whose validation set is given."""
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{e.source}\t{e.target}\n" for e in EXAMPLES) + "\tx\n", encoding="utf-8")
    train, dev = hold_out(Files.of(str(path)), seed=1)
    metadata = prepare(
        tmp_path / "corpus", train, dev, source_tokenizer="character", target_tokenizer="character"
    ).metadata["train"]
    assert [file["path"] for file in metadata["files"]] == [str(path)]
    assert metadata["skipped"] == {"empty": 1}

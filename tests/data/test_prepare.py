"""``prepare``: what is in the folder is what was in the files, and nothing half-made looks whole."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import seqloom.data.lines
from seqloom.data.examples import Example
from seqloom.data.fields import Fields, text_specs
from seqloom.data.prepare import Prepared, prepare
from seqloom.data.readers import Files
from seqloom.errors import InputError, OptionError
from tests.train.small import PAIRS as WORDS

PAIRS = [("a b c", "x y"), ("b", "y z"), ("", "z"), ("a " * 9, "x"), ("c", "z " * 9), ("c a", "x")]
KEPT = [("a b c", "x y"), ("b", "y z"), ("c a", "x")]
OPTIONS = {"source": "symbols", "target": "symbols", "max_length": 8}


def texts(prepared, corpus):
    source, target = prepared.fields["source"], prepared.fields["target"]
    return [
        (source.decode(corpus.row("source", i)), target.decode(corpus.row("target", i))) for i in range(len(corpus))
    ]


@pytest.fixture
def tsv(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS))
    return path


def test_the_folder_holds_what_the_files_held(tmp_path, tsv):
    dev = tmp_path / "dev.jsonl"
    rows = [{"source": "a " * 9 + "new", "target": ["x", "y"]}, {"source": "", "target": "z"}]
    dev.write_text("\n".join(map(json.dumps, rows)))
    seen = []
    prepared = prepare(
        tmp_path / "out",
        Files.of(str(tsv)),
        Files.of(str(dev)),
        **OPTIONS,
        progress=lambda *given: seen.append(given),
    )
    opened = Prepared.open(tmp_path / "out")
    for one in (prepared, opened):
        assert texts(one, one.train) == KEPT
        assert list(one.dev.examples()) == [Example("a " * 9 + "new", "x", ("y",))]
        assert not one.train.has_examples
        facts = one.facts["train"]
        assert facts["pairs"] == 3
        assert facts["skipped"] == {"empty": 1, "too long": 2}
        assert facts["source_tokens"] == sum(len(s.split()) for s, _ in KEPT)
        assert facts["target_tokens"] == sum(len(t.split()) for _, t in KEPT)
        assert (facts["longest_source"], facts["longest_target"]) == (3, 2)
        assert facts["files"][0]["sha256"] == hashlib.sha256(tsv.read_bytes()).hexdigest()
        assert one.facts["dev"]["skipped"] == {"empty": 1}
        assert one.facts["dev"]["longest_source"] == 10
    assert "train: encoding" in {what for what, _ in seen}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "corpus.json", "dev.arrow", "fields.json", "train.arrow",
    ]  # fmt: skip
    assert prepared.fields["source"].tokenizer.encode(["new"]) == [[3]], "fields are fitted on the training data only"


@pytest.mark.parametrize("given", [list, iter, lambda pairs: [Example(*pair) for pair in pairs]])
def test_pairs_can_be_given_as_they_are(tmp_path, given):
    prepared = prepare(tmp_path / "out", given(PAIRS), given(PAIRS[:1]), **OPTIONS)
    assert texts(prepared, prepared.train) == KEPT
    assert prepared.facts["train"]["skipped"] == {"empty": 1, "too long": 2}
    assert len(prepared.dev) == 1


def test_standard_input_is_read_once_and_used_twice(tmp_path, tsv, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tsv.read_bytes())))
    prepared = prepare(tmp_path / "out", Files.of("-"), **OPTIONS)
    assert texts(prepared, prepared.train) == KEPT
    assert prepared.facts["train"]["skipped"] == {"empty": 1, "too long": 2}
    assert prepared.facts["train"]["files"] == [{"path": "standard input"}]
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_a_pipe_is_read_once_and_used_twice(tmp_path, tsv):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(tsv.read_bytes()))
    writer.start()
    prepared = prepare(tmp_path / "out", Files.of(str(tmp_path / "pipe"), format="tsv"), **OPTIONS)
    writer.join()
    assert texts(prepared, prepared.train) == KEPT


def test_a_full_disk_is_reported_and_costs_nothing(tmp_path):
    """A limit on the size of files is what a full disk is to the program."""
    prepare(tmp_path / "out", PAIRS, **OPTIONS)
    code = (
        "import resource, sys; from seqloom.data.prepare import prepare; from seqloom.errors import WriteError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try: prepare(sys.argv[1], [('a b c', 'd')] * 3000, source='symbols', target='symbols')\n"
        "except WriteError as error: print(error)"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "out")]
    said = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert "can't be written" in said
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert len(Prepared.open(tmp_path / "out").train) == len(KEPT)


def test_an_error_in_standard_input_names_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\nc\n")))
    with pytest.raises(InputError, match="standard input, line 2"):
        prepare(tmp_path / "out", Files.of("-"), **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_fields_that_are_given_are_used(tmp_path, tsv):
    fields = Fields(text_specs("symbols", "symbols")).fit(lambda: [Example("a q", "x q")])
    prepared = prepare(tmp_path / "out", Files.of(str(tsv)), fields=fields, max_length=8)
    assert texts(prepared, prepared.train)[0] == ("a � �", "x �")


def test_what_fails_leaves_nothing_and_harms_nothing(tmp_path, tsv):
    out = tmp_path / "out"
    prepare(out, PAIRS, **OPTIONS)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    bad = tmp_path / "bad.tsv"
    bad.write_bytes(tsv.read_bytes() + b"\xff\tx\n")
    with pytest.raises(InputError, match=r"bad\.tsv, line 7: not UTF-8"):
        prepare(out, PAIRS, Files.of(str(bad)), **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        prepare(out, PAIRS, **OPTIONS, progress=lambda what, count: (_ for _ in ()).throw(KeyboardInterrupt))
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    assert {p.name for p in tmp_path.iterdir()} == {"out", "train.tsv", "bad.tsv"}
    prepare(out, PAIRS[:1], **OPTIONS)
    assert len(Prepared.open(out).train) == 1
    assert {p.name for p in tmp_path.iterdir()} == {"out", "train.tsv", "bad.tsv"}


def test_a_file_that_may_not_be_read_is_named_before_any_work(tmp_path, tsv, monkeypatch):
    """It was an error of writing, after all else was done; by a stand-in, as root may read everything."""

    def forbidden(path, *arguments):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(seqloom.data.lines, "open", forbidden, raising=False)
    with pytest.raises(InputError, match=r"train\.tsv can't be read: Permission denied"):
        prepare(tmp_path / "out", iter([]), Files.of(str(tsv)), **OPTIONS)


def test_what_is_no_prepared_corpus_is_not_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.tex").write_text("years of work")
    with pytest.raises(OptionError, match="not overwritten"):
        prepare(tmp_path / "thesis", PAIRS, **OPTIONS)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OptionError, match="not overwritten"):
        prepare(tmp_path / "file", PAIRS, **OPTIONS)
    (tmp_path / "empty").mkdir()
    assert len(prepare(tmp_path / "empty", PAIRS, **OPTIONS).train) == 3


def test_data_that_is_no_use_is_refused(tmp_path):
    with pytest.raises(InputError, match="1 empty, 1 too long"):
        prepare(tmp_path / "out", [("", "x"), ("a " * 9, "x")], **OPTIONS)
    with pytest.raises(InputError, match="the list of pairs is empty"):
        prepare(tmp_path / "out", [], **OPTIONS)
    with pytest.raises(InputError, match="pair 1 of train: the source is empty"):
        prepare(tmp_path / "out", [("a", "b"), (" ", "b")], **OPTIONS, empty="refuse")
    for bad in (("a",), ("a", 3), ("a", "\ud800"), ("a", "b", (1,))):
        with pytest.raises(InputError, match="pair 0 of train"):
            prepare(tmp_path / "out", [bad], **OPTIONS)
    with pytest.raises(OptionError, match="not both"):
        prepare(tmp_path / "out", Files.of("-"), Files.of("-"), **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_corpus_is_named(tmp_path):
    with pytest.raises(InputError, match="no prepared corpus"):
        Prepared.open(tmp_path)
    prepare(tmp_path / "out", PAIRS, **OPTIONS)
    (tmp_path / "out" / "corpus.json").write_text("{")
    with pytest.raises(InputError, match=r"corpus\.json is damaged"):
        Prepared.open(tmp_path / "out")
    (tmp_path / "out" / "corpus.json").write_text('{"format": "seqloom corpus", "version": 99}')
    with pytest.raises(InputError, match="not prepared by this version"):
        Prepared.open(tmp_path / "out")


def test_a_corpus_of_version_1_still_opens(tmp_path):
    """A run of seqloom 0.1 has one, and can go on: what it holds is what the same pairs give today."""
    old = Prepared.open(Path(__file__).parent / "version_1")
    new = prepare(tmp_path / "out", WORDS[:80], WORDS[80:], source="character", target="character")
    assert old.fields.same(new.fields)
    assert old.facts["version"] < new.facts["version"]
    for before, after in ((old.train, new.train), (old.dev, new.dev)):
        assert {side: after.lengths[side].tolist() for side in after.lengths} == {
            side: before.lengths[side].tolist() for side in before.lengths
        }
        one, other = (corpus.batch([3, 0, 19]) for corpus in (before, after))
        for side in ("source", "target"):
            assert all(torch.equal(a, b) for a, b in zip(one[side], other[side], strict=True))
            assert before.row(side, 7).tolist() == after.row(side, 7).tolist()
    assert list(old.dev.examples()) == list(new.dev.examples())


def test_a_column_without_a_field_is_refused(tmp_path):
    with pytest.raises(InputError, match="column 'tags', and a model reads source and target"):
        prepare(tmp_path / "out", [Example("a", "b", tags="c")], **OPTIONS)

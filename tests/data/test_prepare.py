"""``prepare``: the prepared corpus holds the data of the files and is written atomically."""

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
from seqloom.data.prepare import PreparedCorpus, prepare
from seqloom.data.readers import Files
from seqloom.errors import ConfigError, InputError
from tests.train.small import PAIRS as WORDS

PAIRS = [("a b c", "x y"), ("b", "y z"), ("", "z"), ("a " * 9, "x"), ("c", "z " * 9), ("c a", "x")]
KEPT = [("a b c", "x y"), ("b", "y z"), ("c a", "x")]
OPTIONS = {"source_tokenizer": "whitespace", "target_tokenizer": "whitespace", "max_length": 8}


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


def test_prepared_corpus_has_the_data_of_the_files(tmp_path, tsv):
    dev = tmp_path / "dev.jsonl"
    rows = [{"source": "a " * 9 + "new", "target": ["x", "y"]}, {"source": "", "target": "z"}]
    dev.write_text("\n".join(map(json.dumps, rows)))
    reported = []
    prepared = prepare(
        tmp_path / "out",
        Files.of(str(tsv)),
        Files.of(str(dev)),
        **OPTIONS,
        progress=lambda stage, count: reported.append(stage),
    )
    opened = PreparedCorpus.open(tmp_path / "out")
    for one in (prepared, opened):
        assert texts(one, one.train) == KEPT
        assert list(one.dev.examples()) == [Example("a " * 9 + "new", "x", ("y",))]
        assert not one.train.has_examples
        metadata = one.metadata["train"]
        assert metadata["pairs"] == 3
        assert metadata["skipped"] == {"empty": 1, "too long": 2}
        assert metadata["source_tokens"] == sum(len(s.split()) for s, _ in KEPT)
        assert metadata["target_tokens"] == sum(len(t.split()) for _, t in KEPT)
        assert (metadata["longest_source"], metadata["longest_target"]) == (3, 2)
        assert metadata["files"][0]["sha256"] == hashlib.sha256(tsv.read_bytes()).hexdigest()
        assert one.metadata["dev"]["skipped"] == {"empty": 1}
        assert one.metadata["dev"]["longest_source"] == 10
    assert {"train: training tokenizers", "train: encoding"} <= {*reported}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "corpus.json", "dev.arrow", "fields.json", "train.arrow",
    ]  # fmt: skip
    assert prepared.fields["source"].tokenizer.encode(["new"]) == [[3]], "fields are fitted on the training data only"


@pytest.mark.parametrize("given", [list, iter, lambda pairs: [Example(*pair) for pair in pairs]])
def test_pairs_in_memory(tmp_path, given):
    prepared = prepare(tmp_path / "out", given(PAIRS), given(PAIRS[:1]), **OPTIONS)
    assert texts(prepared, prepared.train) == KEPT
    assert prepared.metadata["train"]["skipped"] == {"empty": 1, "too long": 2}
    assert len(prepared.dev) == 1


def test_standard_input_is_read_only_once(tmp_path, tsv, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tsv.read_bytes())))
    prepared = prepare(tmp_path / "out", Files.of("-"), **OPTIONS)
    assert texts(prepared, prepared.train) == KEPT
    assert prepared.metadata["train"]["skipped"] == {"empty": 1, "too long": 2}
    assert prepared.metadata["train"]["files"] == [{"path": "standard input"}]
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_pipe_is_read_only_once(tmp_path, tsv):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(tsv.read_bytes()))
    writer.start()
    prepared = prepare(tmp_path / "out", Files.of(str(tmp_path / "pipe"), format="tsv"), **OPTIONS)
    writer.join()
    assert texts(prepared, prepared.train) == KEPT


def test_full_disk_is_reported_and_keeps_the_previous_corpus(tmp_path):
    """A limit on the file size simulates a full disk."""
    prepare(tmp_path / "out", PAIRS, **OPTIONS)
    code = (
        "import resource, sys; from seqloom.data.prepare import prepare; from seqloom.errors import WriteError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "options = dict.fromkeys(('source_tokenizer', 'target_tokenizer'), 'whitespace')\n"
        "try: prepare(sys.argv[1], [('a b c', 'd')] * 3000, **options)\n"
        "except WriteError as error: print(error)"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "out")]
    output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert "could not be written" in output
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert len(PreparedCorpus.open(tmp_path / "out").train) == len(KEPT)


def test_error_in_standard_input_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\nc\n")))
    with pytest.raises(InputError, match="standard input, line 2"):
        prepare(tmp_path / "out", Files.of("-"), **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_fitted_fields_are_used_unchanged(tmp_path, tsv):
    fields = Fields(text_specs("whitespace", "whitespace")).fit(lambda: [Example("a q", "x q")])
    prepared = prepare(tmp_path / "out", Files.of(str(tsv)), fields=fields, max_length=8)
    assert texts(prepared, prepared.train)[0] == ("a � �", "x �")


def test_failure_leaves_no_files_and_keeps_the_previous_corpus(tmp_path, tsv):
    out = tmp_path / "out"
    prepare(out, PAIRS, **OPTIONS)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    bad = tmp_path / "bad.tsv"
    bad.write_bytes(tsv.read_bytes() + b"\xff\tx\n")
    with pytest.raises(InputError, match=r"bad\.tsv, line 7: not UTF-8"):
        prepare(out, PAIRS, Files.of(str(bad)), **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        prepare(out, PAIRS, **OPTIONS, progress=lambda stage, count: (_ for _ in ()).throw(KeyboardInterrupt))
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    assert {p.name for p in tmp_path.iterdir()} == {"out", "train.tsv", "bad.tsv"}
    prepare(out, PAIRS[:1], **OPTIONS)
    assert len(PreparedCorpus.open(out).train) == 1
    assert {p.name for p in tmp_path.iterdir()} == {"out", "train.tsv", "bad.tsv"}


def test_unreadable_file_is_reported_before_any_work(tmp_path, tsv, monkeypatch):
    """With a mock of ``open``, since root can read every file."""

    def forbidden(path, *arguments):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(seqloom.data.lines, "open", forbidden, raising=False)
    with pytest.raises(InputError, match=r"train\.tsv can't be read: Permission denied"):
        prepare(tmp_path / "out", iter([]), Files.of(str(tsv)), **OPTIONS)


def test_other_directories_are_not_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="already exists and is not a prepared corpus"):
        prepare(tmp_path / "thesis", PAIRS, **OPTIONS)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="already exists and is not a prepared corpus"):
        prepare(tmp_path / "file", PAIRS, **OPTIONS)
    (tmp_path / "empty").mkdir()
    assert len(prepare(tmp_path / "empty", PAIRS, **OPTIONS).train) == 3


def test_unusable_data_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"no usable pairs \(skipped: 1 empty, 1 too long\)"):
        prepare(tmp_path / "out", [("", "x"), ("a " * 9, "x")], **OPTIONS)
    with pytest.raises(InputError, match="the list of pairs is empty"):
        prepare(tmp_path / "out", [], **OPTIONS)
    with pytest.raises(InputError, match="pair 1 of train: the source is empty"):
        prepare(tmp_path / "out", [("a", "b"), (" ", "b")], **OPTIONS, on_empty="error")
    for bad in (("a",), ("a", 3), ("a", "\ud800"), ("a", "b", (1,))):
        with pytest.raises(InputError, match="pair 0 of train"):
            prepare(tmp_path / "out", [bad], **OPTIONS)
    with pytest.raises(ConfigError, match="not both"):
        prepare(tmp_path / "out", Files.of("-"), Files.of("-"), **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_opening_an_invalid_corpus(tmp_path):
    with pytest.raises(InputError, match="is not a prepared corpus"):
        PreparedCorpus.open(tmp_path)
    prepare(tmp_path / "out", PAIRS, **OPTIONS)
    (tmp_path / "out" / "corpus.json").write_text("{")
    with pytest.raises(InputError, match=r"corpus\.json is damaged"):
        PreparedCorpus.open(tmp_path / "out")
    (tmp_path / "out" / "corpus.json").write_text('{"format": "seqloom corpus", "version": 99}')
    with pytest.raises(InputError, match="not written by a supported version"):
        PreparedCorpus.open(tmp_path / "out")


def test_corpus_of_version_1_can_be_opened(tmp_path):
    """Runs of seqloom 0.1 have one and can be resumed: its data equals a corpus prepared from the same pairs now."""
    old = PreparedCorpus.open(Path(__file__).parent / "version_1")
    new = prepare(
        tmp_path / "out", WORDS[:80], WORDS[80:], source_tokenizer="character", target_tokenizer="character"
    )
    assert old.fields.same(new.fields)
    assert old.metadata["version"] < new.metadata["version"]
    for before, after in ((old.train, new.train), (old.dev, new.dev)):
        assert {side: after.lengths[side].tolist() for side in after.lengths} == {
            side: before.lengths[side].tolist() for side in before.lengths
        }
        one, other = (corpus.batch([3, 0, 19]) for corpus in (before, after))
        for side in ("source", "target"):
            assert all(torch.equal(a, b) for a, b in zip(one[side], other[side], strict=True))
            assert before.row(side, 7).tolist() == after.row(side, 7).tolist()
    assert list(old.dev.examples()) == list(new.dev.examples())


def test_column_without_a_field_is_rejected(tmp_path):
    with pytest.raises(InputError, match="column 'tags', but the model's fields are source, target"):
        prepare(tmp_path / "out", [Example("a", "b", tags="c")], **OPTIONS)

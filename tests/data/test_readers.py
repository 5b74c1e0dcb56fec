"""Readers, against files whose content is known, written by other means than ours."""

import gzip
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqloom.data.examples import Example, Skipped
from seqloom.data.lines import check_file, lines
from seqloom.data.readers import Files, expand
from seqloom.errors import InputError, OptionError, SeqloomError

PAIRS = [("ein Hund", "a dog"), ("zwei Äpfel", "two apples"), ("drei 𝄞\u2028\x0b\x85 x", "three\x0c\x1c y")]


def read(files, **how):
    return files.read(**how)


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def aligned(tmp_path, *, end="\n", last=True, before=b""):
    for side, language in enumerate(("de", "en")):
        text = end.join(pair[side] for pair in PAIRS) + (end if last else "")
        written(tmp_path / f"t.{language}", before + text.encode())
    return Files.of(f"{tmp_path}/t.{{de,en}}")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
def test_lines_end_at_newlines_and_nowhere_else(tmp_path, end, last, before):
    assert list(read(aligned(tmp_path, end=end, last=last, before=before))) == [Example(*pair) for pair in PAIRS]


def test_a_carriage_return_inside_a_line_is_text(tmp_path):
    written(tmp_path / "a", "x\ry\r\nz\r")
    written(tmp_path / "b", "1\n2\n")
    assert list(read(Files.of([f"{tmp_path}/a", f"{tmp_path}/b"]))) == [Example("x\ry", "1"), Example("z\r", "2")]


def tsv():
    return "".join(f"{i}\t{target}\t{source}\n" for i, (source, target) in enumerate(PAIRS)).encode()


def zstd(content):
    return pa.Codec("zstd").compress(content, asbytes=True)


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".zst", zstd),
        (".gz", lambda c: gzip.compress(c[:20]) + gzip.compress(c[20:])),
        (".zst", lambda c: zstd(c[:20]) + zstd(c[20:])),
    ],
)
def test_compression_is_known_by_the_name(tmp_path, suffix, compress):
    path = written(tmp_path / f"t.tsv{suffix}", compress(tsv()))
    assert list(read(Files.of(path, columns=(2, 1)))) == [Example(*pair) for pair in PAIRS]


def test_columns_of_a_tsv_have_names_if_it_has_a_header(tmp_path):
    path = written(tmp_path / "t.tsv", b"id\ttarget\tsource\n" + tsv())
    assert list(read(Files.of(path, columns=("source", "target"), header=True))) == [Example(*p) for p in PAIRS]
    assert list(read(Files.of(path, columns=("2", "1"), header=True))) == [Example(*p) for p in PAIRS]
    with pytest.raises(InputError, match=r"t\.tsv: .*'sorce'.*did you mean 'source'"):
        list(read(Files.of(path, columns=("sorce", "target"), header=True)))
    with pytest.raises(InputError, match="only if there is a header"):
        list(read(Files.of(path, columns=("source", "target"))))


def test_lists_and_further_columns_are_references(tmp_path):
    rows = [{"source": "x", "target": ["a", "b"], "other": "c"}, {"source": "y", "target": "d", "other": ""}]
    jsonl = written(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    columns = ("source", "target", "other")
    want = [Example("x", "a", ("b", "c")), Example("y", "d")]
    assert list(read(Files.of(jsonl, columns=columns))) == want
    assert next(read(Files.of(jsonl))) == Example("x", "a", ("b",))

    for row in rows:
        row["target"] = row["target"] if isinstance(row["target"], list) else [row["target"]]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet", row_group_size=1)
    assert list(read(Files.of(f"{tmp_path}/t.parquet", columns=columns))) == want

    for name, text in (("s", "x\ny\n"), ("t", "a\nd\n"), ("r", "b\n\n")):
        written(tmp_path / name, text)
    got = read(Files.of([f"{tmp_path}/{name}" for name in "str"]))
    assert list(got) == [Example("x", "a", ("b",)), Example("y", "d")]


@pytest.mark.parametrize("text", ["\tb", "a\t", " \tb", "a\t\u3000", ""])
def test_an_empty_side_is_skipped_with_a_count_or_refused(tmp_path, text):
    path = written(tmp_path / "t.tsv", f"x\ty\n{text}\nv\tw\n")
    skipped = Skipped()
    assert list(read(Files.of(path), skipped=skipped)) == [Example("x", "y"), Example("v", "w")]
    assert skipped == {"empty": 1}
    with pytest.raises(InputError, match=r"t\.tsv, line 2: the (source|target) is empty"):
        list(read(Files.of(path), empty="refuse"))


def test_different_line_counts_are_both_said(tmp_path):
    written(tmp_path / "a", "x\n" * 5)
    written(tmp_path / "b", "y\n" * 3)
    with pytest.raises(InputError, match=r"a has 5, .*b has 3; up to line 3"):
        list(read(Files.of([f"{tmp_path}/a", f"{tmp_path}/b"])))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.tsv", b"a\tb\nc\td\xe4\n", r"t\.tsv, line 2: not UTF-8: byte 4 is 0xE4"),
        ("t.tsv", "a\tb\n".encode("utf-16"), r"t\.tsv, line 1: this is UTF-16"),
        ("t.tsv", b"a\tb\nc\n", r"t\.tsv, line 2: it has 1 columns.* column 1"),
        ("t.jsonl", b'{"source": "a", "target": "b"}\n{"source"\n', r"t\.jsonl, line 2: not JSON"),
        ("t.jsonl", b'["a", "b"]\n', r"t\.jsonl, line 1: not a JSON object"),
        ("t.jsonl", b'{"source": "a", "tarjet": "b"}\n', r"t\.jsonl, line 1: .*'target'; did you mean 'tarjet'"),
        ("t.jsonl", b'{"source": "a", "target": 3}\n', r"t\.jsonl, line 1: 3 is a int, not text"),
        ("t.jsonl", b'{"source": ["a", "b"], "target": "c"}\n', r"t\.jsonl, line 1: the source is a list"),
        ("t.jsonl", b'{"source": "\\ud800", "target": "c"}\n', r"t\.jsonl, line 1: .*half a character"),
        ("t.parquet", b"nothing of the kind", r"t\.parquet: can't be read as Parquet"),
        (
            "t.tsv.gz",
            gzip.compress(b"a\tb\n" * 10_000, mtime=0)[:-20],
            r"t\.tsv\.gz, after line \d+: can't be read on",
        ),
        ("t.tsv.gz", b"a\tb\n", r"t\.tsv\.gz"),
    ],
)
def test_bad_input_is_named(tmp_path, name, content, said):
    path = written(tmp_path / name, content)
    with pytest.raises(InputError, match=said):
        list(read(Files.of(path)))


def test_a_missing_column_of_parquet_is_named(tmp_path):
    pq.write_table(pa.table({"source": ["a"], "targets": ["b"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="'target'; did you mean 'targets'"):
        list(read(Files.of(f"{tmp_path}/t.parquet")))


def test_a_file_that_is_not_there_is_named_with_the_nearest(tmp_path):
    written(tmp_path / "train.tsv", "a\tb\n")
    with pytest.raises(InputError, match=r"trian\.tsv is not there; did you mean .*train\.tsv"):
        read(Files.of(f"{tmp_path}/trian.tsv"))
    with pytest.raises(InputError, match="no folder"):
        read(Files.of(f"{tmp_path}/none/train.tsv"))
    with pytest.raises(InputError, match="is a folder"):
        read(Files.of([str(tmp_path), str(tmp_path)]))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("train.txt", {}),
        (["a.tsv", "b.tsv"], {}),
        (["a", "b"], {"format": "jsonl"}),
        ("a", {"format": "lines"}),
        (["-", "-"], {}),
        ("-", {"format": "parquet"}),
        ("a.jsonl", {"header": True}),
        ("a.tsv", {"columns": (1,)}),
        (["a", "b"], {"columns": (0, 1)}),
        ([], {}),
    ],
)
def test_files_that_make_no_sense_are_refused_before_reading(given, options):
    with pytest.raises(OptionError):
        Files.of(given, **options)


def test_braces_expand_as_in_bash():
    pattern = "a{1,2}.{x,y{3,4}}.{z}"
    wanted = subprocess.run(["bash", "-c", f"echo {pattern}"], capture_output=True, text=True, check=True)
    assert expand(pattern) == wanted.stdout.split()
    assert expand("train.{de,en}.gz") == ["train.de.gz", "train.en.gz"]


def test_standard_input_streams():
    """A line is there before the next is written."""
    code = "from seqloom.data.lines import lines\nfor _, text in lines('-'): print(repr(text), flush=True)"
    environment = os.environ | {"PYTHONUTF8": "0", "LC_ALL": "C"}  # input is UTF-8 whatever the terminal says
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, env=environment) as process:
        for line in ("first", "", "dritte Zeile"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{line!r}\n"
        process.stdin.close()
        assert process.stdout.read() == b""


def test_lines_keep_blank_ones(tmp_path):
    path = written(tmp_path / "in.txt", "a\n\n b \n\n")
    assert list(lines(path)) == [(1, "a"), (2, ""), (3, " b "), (4, "")]
    with pytest.raises(SeqloomError, match=r"did you mean .*in\.txt"):
        check_file(f"{tmp_path}/in.text")


def test_a_damaged_page_of_parquet_is_the_persons_file_not_a_bug(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"source": [f"{n} a" for n in range(999)], "target": ["b"] * 999}), path)
    data = bytearray(path.read_bytes())
    data[20:900] = b"\xff" * 880
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="can't be read as Parquet"):
        list(read(Files.of(str(path))))


def test_a_text_of_parquet_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    texts = pa.array([b"a", b"\xff\xfe"]).cast(pa.binary())
    broken = pa.StringArray.from_buffers(2, texts.buffers()[1], texts.buffers()[2])
    pq.write_table(pa.table({"source": broken, "target": ["b", "b"]}), path)
    with pytest.raises(InputError, match="row 2: a text that is not UTF-8"):
        list(read(Files.of(str(path))))

"""Readers, on files with known content that was written without seqloom."""

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
from seqloom.errors import ConfigError, InputError, SeqloomError

PAIRS = [("ein Hund", "a dog"), ("zwei Äpfel", "two apples"), ("drei 𝄞\u2028\x0b\x85 x", "three\x0c\x1c y")]


def read(files, **options):
    return files.read(**options)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def aligned(tmp_path, *, end="\n", last=True, before=b""):
    for side, language in enumerate(("de", "en")):
        text = end.join(pair[side] for pair in PAIRS) + (end if last else "")
        write(tmp_path / f"t.{language}", before + text.encode())
    return Files.of(f"{tmp_path}/t.{{de,en}}")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
def test_only_newlines_end_a_line(tmp_path, end, last, before):
    assert list(read(aligned(tmp_path, end=end, last=last, before=before))) == [Example(*pair) for pair in PAIRS]


def test_carriage_return_inside_a_line_is_text(tmp_path):
    write(tmp_path / "a", "x\ry\r\nz\r")
    write(tmp_path / "b", "1\n2\n")
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
def test_compression_is_detected_from_the_suffix(tmp_path, suffix, compress):
    path = write(tmp_path / f"t.tsv{suffix}", compress(tsv()))
    assert list(read(Files.of(path, columns=(2, 1)))) == [Example(*pair) for pair in PAIRS]


def test_tsv_header(tmp_path):
    path = write(tmp_path / "t.tsv", b"id\ttarget\tsource\n" + tsv())
    assert list(read(Files.of(path, columns=("source", "target"), header=True))) == [Example(*p) for p in PAIRS]
    assert list(read(Files.of(path, columns=("2", "1"), header=True))) == [Example(*p) for p in PAIRS]
    with pytest.raises(InputError, match=r"t\.tsv: .*'sorce'.*did you mean 'source'"):
        list(read(Files.of(path, columns=("sorce", "target"), header=True)))
    with pytest.raises(InputError, match="by name only if the file has a header"):
        list(read(Files.of(path, columns=("source", "target"))))


def test_references_in_lists_and_in_additional_columns(tmp_path):
    rows = [{"source": "x", "target": ["a", "b"], "other": "c"}, {"source": "y", "target": "d", "other": ""}]
    jsonl = write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    columns = ("source", "target", "other")
    expected = [Example("x", "a", ("b", "c")), Example("y", "d")]
    assert list(read(Files.of(jsonl, columns=columns))) == expected
    assert next(read(Files.of(jsonl))) == Example("x", "a", ("b",))

    for row in rows:
        row["target"] = row["target"] if isinstance(row["target"], list) else [row["target"]]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet", row_group_size=1)
    assert list(read(Files.of(f"{tmp_path}/t.parquet", columns=columns))) == expected

    for name, text in (("s", "x\ny\n"), ("t", "a\nd\n"), ("r", "b\n\n")):
        write(tmp_path / name, text)
    examples = read(Files.of([f"{tmp_path}/{name}" for name in "str"]))
    assert list(examples) == [Example("x", "a", ("b",)), Example("y", "d")]


@pytest.mark.parametrize("text", ["\tb", "a\t", " \tb", "a\t\u3000", ""])
def test_empty_side_is_skipped_and_counted_or_rejected(tmp_path, text):
    path = write(tmp_path / "t.tsv", f"x\ty\n{text}\nv\tw\n")
    skipped = Skipped()
    assert list(read(Files.of(path), skipped=skipped)) == [Example("x", "y"), Example("v", "w")]
    assert skipped == {"empty": 1}
    with pytest.raises(InputError, match=r"t\.tsv, line 2: the (source|target) is empty"):
        list(read(Files.of(path), on_empty="error"))


def test_different_line_counts_are_reported(tmp_path):
    write(tmp_path / "a", "x\n" * 5)
    write(tmp_path / "b", "y\n" * 3)
    with pytest.raises(InputError, match=r"same number of lines, but .*a has 5, .*b has 3"):
        list(read(Files.of([f"{tmp_path}/a", f"{tmp_path}/b"])))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", b"a\tb\nc\td\xe4\n", r"t\.tsv, line 2: not UTF-8: byte 4 of the line is 0xE4"),
        ("t.tsv", "a\tb\n".encode("utf-16"), r"t\.tsv, line 1: the file is UTF-16"),
        ("t.tsv", b"a\tb\nc\n", r"t\.tsv, line 2: column 1 is missing.* columns: 1 "),
        ("t.jsonl", b'{"source": "a", "target": "b"}\n{"source"\n', r"t\.jsonl, line 2: not valid JSON"),
        ("t.jsonl", b'["a", "b"]\n', r"t\.jsonl, line 1: not a JSON object"),
        ("t.jsonl", b'{"source": "a", "tarjet": "b"}\n', r"t\.jsonl, line 1: .*'target'; did you mean 'tarjet'"),
        ("t.jsonl", b'{"source": "a", "target": 3}\n', r"t\.jsonl, line 1: 3 is a int, not text"),
        ("t.jsonl", b'{"source": ["a", "b"], "target": "c"}\n', r"t\.jsonl, line 1: the source is a list"),
        ("t.jsonl", b'{"source": "\\ud800", "target": "c"}\n', r"t\.jsonl, line 1: .*lone surrogate"),
        ("t.parquet", b"this is not a Parquet file", r"t\.parquet: can't be read as Parquet"),
        (
            "t.tsv.gz",
            gzip.compress(b"a\tb\n" * 10_000, mtime=0)[:-20],
            r"t\.tsv\.gz, after line \d+: reading failed",
        ),
        ("t.tsv.gz", b"a\tb\n", r"t\.tsv\.gz"),
    ],
)
def test_invalid_input_is_reported_with_its_location(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=message):
        list(read(Files.of(path)))


def test_missing_column_of_parquet_is_reported(tmp_path):
    pq.write_table(pa.table({"source": ["a"], "targets": ["b"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="'target'; did you mean 'targets'"):
        list(read(Files.of(f"{tmp_path}/t.parquet")))


def test_missing_file_is_reported_with_a_suggestion(tmp_path):
    write(tmp_path / "train.tsv", "a\tb\n")
    with pytest.raises(InputError, match=r"trian\.tsv not found; did you mean .*train\.tsv"):
        read(Files.of(f"{tmp_path}/trian.tsv"))
    with pytest.raises(InputError, match=r"directory .*/none does not exist"):
        read(Files.of(f"{tmp_path}/none/train.tsv"))
    with pytest.raises(InputError, match="is a directory"):
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
def test_invalid_files_and_options_are_rejected_before_reading(given, options):
    with pytest.raises(ConfigError):
        Files.of(given, **options)


def test_brace_expansion_equals_bash():
    pattern = "a{1,2}.{x,y{3,4}}.{z}"
    expected = subprocess.run(["bash", "-c", f"echo {pattern}"], capture_output=True, text=True, check=True)
    assert expand(pattern) == expected.stdout.split()
    assert expand("train.{de,en}.gz") == ["train.de.gz", "train.en.gz"]


def test_standard_input_is_streamed():
    """Each line is available before the next one is written."""
    code = "from seqloom.data.lines import lines\nfor _, text in lines('-'): print(repr(text), flush=True)"
    environment = os.environ | {"PYTHONUTF8": "0", "LC_ALL": "C"}  # input is UTF-8 in every locale
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, env=environment) as process:
        for line in ("first", "", "dritte Zeile"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{line!r}\n"
        process.stdin.close()
        assert process.stdout.read() == b""


def test_blank_lines_are_kept(tmp_path):
    path = write(tmp_path / "in.txt", "a\n\n b \n\n")
    assert list(lines(path)) == [(1, "a"), (2, ""), (3, " b "), (4, "")]
    with pytest.raises(SeqloomError, match=r"did you mean .*in\.txt"):
        check_file(f"{tmp_path}/in.text")


def test_damaged_parquet_file_is_an_input_error(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"source": [f"{n} a" for n in range(999)], "target": ["b"] * 999}), path)
    data = bytearray(path.read_bytes())
    data[20:900] = b"\xff" * 880
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="can't be read as Parquet"):
        list(read(Files.of(str(path))))


def test_parquet_text_that_is_not_utf8_is_reported(tmp_path):
    path = tmp_path / "t.parquet"
    texts = pa.array([b"a", b"\xff\xfe"]).cast(pa.binary())
    broken = pa.StringArray.from_buffers(2, texts.buffers()[1], texts.buffers()[2])
    pq.write_table(pa.table({"source": broken, "target": ["b", "b"]}), path)
    with pytest.raises(InputError, match="row 2: not UTF-8"):
        list(read(Files.of(str(path))))

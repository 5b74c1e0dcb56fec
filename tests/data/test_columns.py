"""Choosing columns by name or number, the same for every format."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqloom import registry
from seqloom.config import make_config
from seqloom.data.examples import Example
from seqloom.data.readers import Files, Reader
from seqloom.data.readers.columns import parse_columns
from seqloom.errors import ConfigError, InputError

ROWS = [{"lemma": "gehen", "tags": "V;PST", "form": "ging"}, {"lemma": "sehen", "tags": "V;PST", "form": "sah"}]
EXPECTED = [Example("gehen", "ging"), Example("sehen", "sah")]


@pytest.fixture(params=["tsv", "jsonl", "parquet"])
def path(request, tmp_path):
    file = tmp_path / f"t.{request.param}"
    if request.param == "tsv":
        file.write_text("".join("\t".join(row) + "\n" for row in [ROWS[0].keys(), *(r.values() for r in ROWS)]))
    elif request.param == "jsonl":
        file.write_text("\n".join([json.dumps(ROWS[0]), json.dumps(dict(reversed(ROWS[1].items())))]))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    return str(file)


@pytest.mark.parametrize(
    "columns",
    [["lemma", "form"], [0, 2], {"source": "lemma", "target": "form"}, {"source": 0, "target": 2}, ["lemma", 2]],
)
def test_columns_by_name_and_number(path, columns):
    files = Files.of(path, columns=columns, header=path.endswith("tsv"))
    assert list(files.read()) == EXPECTED


def test_additional_columns_and_references(path):
    columns = {"source": "lemma", "target": "form", "tags": "tags", "references": ["lemma", 1]}
    first = next(Files.of(path, columns=columns, header=path.endswith("tsv")).read())
    assert first == Example("gehen", "ging", ("gehen", "V;PST"), tags="V;PST")


def test_unknown_column_is_reported_with_a_suggestion(path):
    with pytest.raises(InputError, match=r"'lema'; did you mean 'lemma'.*--columns"):
        list(Files.of(path, columns={"source": "lema", "target": "form"}, header=path.endswith("tsv")).read())


@pytest.mark.parametrize("header", [True, False])
def test_tsv_with_three_columns_requires_columns(tmp_path, header):
    path = tmp_path / "t.tsv"
    path.write_text("lemma\ttags\tform\ngehen\tV;PST\tging\n")
    with pytest.raises(InputError, match=r"3 columns.*--columns 0,2.*0: 'lemma', 1: 'tags', 2: 'form'"):
        list(Files.of(str(path), header=header).read())


def test_header_with_source_and_target_is_the_default(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("id\ttarget\tsource\n1\tb\ta\n")
    assert list(Files.of(str(path), header=True).read()) == [Example("a", "b")]


def test_unknown_format_error_names_the_option():
    with pytest.raises(ConfigError, match="--format tsv"):
        Files.of("pairs.txt")


@pytest.mark.parametrize("wrong", [[[0, 2], 1], [0], {"source": 0}, "lemma", [0, -1], [0, None], [True, 1], 3])
def test_invalid_columns_are_rejected(wrong):
    for make in (parse_columns, lambda columns: make_config({"data": {"columns": columns}})):
        with pytest.raises(ConfigError, match="give the columns of source and target"):
            make(wrong)


def test_columns_in_a_configuration():
    for columns in ([0, "form"], {"source": 0, "target": "form", "references": [2, 3]}):
        assert make_config({"data": {"columns": [5, 6]}}, {"data": {"columns": columns}}).data.columns == columns


def test_custom_reader(tmp_path, monkeypatch):
    class Upper(Reader):
        """The target is the source line in upper case."""

        name = "upper"
        suffixes = (".upper",)

        def rows(self):
            for n, line in enumerate(Path(self.path).read_text().splitlines()):
                yield (lambda _, n=n: f"line {n}"), {"source": line, "target": line.upper()}

    monkeypatch.setitem(registry._parts["reader"], "upper", Upper)
    (tmp_path / "t.upper").write_text("a\nb")
    assert list(Files.of(f"{tmp_path}/t.upper").read()) == [Example("a", "A"), Example("b", "B")]

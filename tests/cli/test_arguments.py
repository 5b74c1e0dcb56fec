"""Parsing of arguments and of requests, without a model."""

import subprocess
import sys

import pytest

from seqloom.cli.files import expand_file_args
from seqloom.cli.requests import Request, parse_json, read_requests
from seqloom.cli.search_options import split_search_args
from seqloom.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("given", "expanded"),
    [
        ("train --train a.de a.en --out r", "train --train a.de --train a.en --out r"),
        ("train --train a.tsv c.yaml", "train --train a.tsv c.yaml"),
        ("evaluate r --data t.de t.en t2.en --json", "evaluate r --data t.de --data t.en --data t2.en --json"),
        ("train --train - --dev d.tsv", "train --train - --dev d.tsv"),
        ("predict run input", "predict run input"),
    ],
)
def test_file_options_accept_several_files(given, expanded):
    assert expand_file_args(given.split()) == expanded.split()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("red cat", "line 3: invalid JSON"),
        ('["red"]', "must be a JSON object with a source"),
        ('{"text": "red"}', "must be a JSON object with a source"),
        ('{"source": "red", "prefixes": "a"}', "did you mean 'prefix'"),
        ('{"source": "red", "prefix": ["a"]}', "prefix is ['a'], but it must be a string"),
        ('{"source": "red", "require": "a"}', "require is 'a', but it must be a list of strings"),
    ],
)
def test_invalid_request_is_an_error(line, message):
    with pytest.raises(InputError) as raised:
        parse_json(line, "requests.jsonl, line 3")
    assert message in str(raised.value)


def test_file_name_determines_format(tmp_path):
    for name, expected in (("a.jsonl", "x"), ("a.txt", '{"source": "x"}')):
        path = str(tmp_path / name)
        (tmp_path / name).write_text('{"source": "x"}\n')
        assert list(read_requests(path, None)) == [Request(expected, location=f"{path}, line 1")]


def test_search_options_are_split_from_command_options():
    own = {"--search", "--json"}
    words = ["run", "--top-k", "3", "--search", "sample", "--top_p=0.5", "--json", "--x", "-1"]
    assert split_search_args(words, own) == (
        ["run", "--search", "sample", "--json"],
        {"top_k": "3", "top_p": "0.5", "x": "-1"},
    )
    assert split_search_args(["--", "--odd"], own) == (["--", "--odd"], {})
    with pytest.raises(ConfigError, match="--top-k needs a value"):
        split_search_args(["--top-k", "--json"], own)


@pytest.mark.parametrize("command", ["predict", "evaluate", "score"])
def test_help_does_not_import_torch(command):
    check = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))"
    code = f"{check}; import seqloom.cli; sys.argv = ['seqloom', '{command}', '--help']; seqloom.cli.main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.strip()) == (0, "False")

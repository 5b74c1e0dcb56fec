"""The command line."""

import json
import os
import subprocess
import sys
import warnings

import pytest
from typer.testing import CliRunner

from seqloom import cli, parts, registry
from seqloom.cli import app

PART = '''
from seqloom import register

@register("cell", "from_outside")
class FromOutside:
    """A custom [test] cell."""

    def __init__(self, inputs, size, *, sharpness: float = 2.5):
        pass
'''


@pytest.fixture(autouse=True)
def restore_registry(monkeypatch):
    for kind in registry.KINDS:
        parts(kind)
    monkeypatch.setattr(registry, "_parts", {kind: dict(known) for kind, known in registry._parts.items()})


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "seqloom", *arguments], capture_output=True, text=True)


def test_parts_lists_every_part_of_every_kind():
    lines = [line.split() for line in run("parts").splitlines() if line.strip()]
    first_words = [line[0] for line in lines]
    for kind in registry.KINDS:
        assert kind in first_words
        assert set(parts(kind)) <= set(first_words)


def test_parts_of_one_kind_lists_options():
    shown = run("parts", "cell")
    assert "forget_bias = 1.0" in shown
    assert "reset_after = False" in shown
    assert "additive" not in shown


def test_parts_json_has_every_part_option_and_default():
    shown = json.loads(run("parts", "--json"))
    assert list(shown) == list(registry.KINDS)
    for kind, listed in shown.items():
        assert list(listed) == list(parts(kind))
        for name, part in listed.items():
            assert part["summary"] == registry.summary(parts(kind)[name])
            options = registry.options(parts(kind)[name])
            defaults = {option: parameter.default for option, parameter in options.items()}
            assert {option: o["default"] for option, o in part["options"].items()} == json.loads(json.dumps(defaults))
            assert all(o["type"] for o in part["options"].values())
            assert [option for option, o in part["options"].items() if not o["description"]] == [], (kind, name)


def test_parts_json_of_one_kind():
    assert list(json.loads(run("parts", "score", "--json"))) == ["score"]


@pytest.mark.parametrize("option", ["--import", "--code"])
def test_parts_lists_imported_parts(tmp_path, option):
    file = tmp_path / "mine.py"
    file.write_text(PART)
    shown = run("parts", "cell", option, str(file))
    assert "from_outside" in shown
    assert "A custom [test] cell." in shown
    assert "sharpness = 2.5" in shown


def test_former_name_of_import_is_accepted_and_hidden(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PART)
    assert "from_outside" in command("parts", "cell", f"--code={file}").stdout
    assert "--code" not in command("parts", "--help").stdout


def test_import_is_repeatable(tmp_path):
    files = [tmp_path / "mine.py", tmp_path / "yours.py"]
    for file, name in zip(files, ("from_outside", "from_there"), strict=True):
        file.write_text(PART.replace("from_outside", name))
    listed = command("parts", "cell", "--json", "--import", str(files[0]), "--import", str(files[1])).stdout
    assert {"from_outside", "from_there"} <= json.loads(listed)["cell"].keys()


def test_parts_json_in_a_pipe_is_valid():
    ran = command("parts", "normalizer", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(json.loads(ran.stdout)["normalizer"]) == list(parts("normalizer"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parts", "cel"], "unknown kind of part 'cel'; did you mean 'cell'?"),
        (["parts", "--import", "nowhere.py"], "nowhere.py is not a Python file"),
    ],
    ids=["unknown kind", "no such file"],
)
def test_user_error_prints_one_line_and_exits_with_2(arguments, message):
    ran = command(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("seqloom: ")
    assert message in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_syntax_error_in_imported_file_prints_no_traceback(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("def (:\n")
    ran = command("parts", "--import", str(file))
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert "broken.py" in ran.stderr


@pytest.mark.parametrize("arguments", [["parts"], ["parts", "--json"], ["config"]], ids=" ".join)
def test_closed_output_pipe_is_not_an_error(arguments):
    """As in ``seqloom parts | head -1``; otherwise, a script with ``set -o pipefail`` would fail."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as closed:
        ran = subprocess.run([sys.executable, "-m", "seqloom", *arguments], stdout=closed, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["parts", "--help"]], ids=" ".join)
def test_help_prints_usage(arguments):
    ran = command(*arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage" in ran.stdout


def test_unknown_command_exits_with_2():
    assert command("part").returncode == 2


def test_former_option_names_give_a_warning_on_one_line():
    ran = command("config", "--set", "train.clip=2")
    assert ran.returncode == 0
    assert "clip_grad_norm: 2.0" in ran.stdout
    (line,) = ran.stderr.splitlines()
    assert line.startswith("seqloom: ")
    assert "train.clip → train.clip_grad_norm" in line


def test_only_deprecation_warnings_of_seqloom_have_the_short_format():
    short = cli.format_warning(FutureWarning("renamed"), FutureWarning, registry.__file__, 1)
    assert short == "seqloom: renamed\n"
    for category, file in ((FutureWarning, warnings.__file__), (UserWarning, registry.__file__)):
        assert cli.format_warning(category("other"), category, file, 1).startswith(f"{file}:1: {category.__name__}")

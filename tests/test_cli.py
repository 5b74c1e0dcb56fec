"""The command line."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from seqloom import parts, registry
from seqloom.cli import app

PART = '''
from seqloom import register

@register("cell", "from_outside")
class FromOutside:
    """A cell [of] mine."""

    def __init__(self, inputs, size, *, sharpness: float = 2.5):
        pass
'''


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
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


def test_one_kind_comes_with_its_options():
    shown = run("parts", "cell")
    assert "forget_bias = 1.0" in shown
    assert "reset = 'before'" in shown
    assert "additive" not in shown


def test_json_has_every_kind_part_option_and_default():
    shown = json.loads(run("parts", "--json"))
    assert list(shown) == list(registry.KINDS)
    for kind, listed in shown.items():
        assert list(listed) == list(parts(kind))
        for name, facts in listed.items():
            assert facts["meaning"] == registry.meaning(parts(kind)[name])
            options = registry.options(parts(kind)[name])
            defaults = {option: parameter.default for option, parameter in options.items()}
            assert {option: o["default"] for option, o in facts["options"].items()} == json.loads(
                json.dumps(defaults)
            )
            assert all(o["type"] for o in facts["options"].values())
            assert [option for option, o in facts["options"].items() if not o["meaning"]] == [], (kind, name)


def test_json_of_one_kind():
    assert list(json.loads(run("parts", "score", "--json"))) == ["score"]


@pytest.mark.parametrize("option", ["--import", "--code"])
def test_parts_of_your_own(tmp_path, option):
    file = tmp_path / "mine.py"
    file.write_text(PART)
    shown = run("parts", "cell", option, str(file))
    assert "from_outside" in shown
    assert "A cell [of] mine." in shown
    assert "sharpness = 2.5" in shown


def test_the_former_name_of_import_is_taken_and_not_shown(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PART)
    assert "from_outside" in command("parts", "cell", f"--code={file}").stdout
    assert "--code" not in command("parts", "--help").stdout


def test_several_files_are_imported(tmp_path):
    files = [tmp_path / "mine.py", tmp_path / "yours.py"]
    for file, name in zip(files, ("from_outside", "from_there"), strict=True):
        file.write_text(PART.replace("from_outside", name))
    listed = command("parts", "cell", "--json", "--import", str(files[0]), "--import", str(files[1])).stdout
    assert {"from_outside", "from_there"} <= json.loads(listed)["cell"].keys()


def test_json_stays_json_where_it_is_piped():
    ran = command("parts", "normaliser", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(json.loads(ran.stdout)["normaliser"]) == list(parts("normaliser"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["parts", "cel"], "unknown kind of part 'cel'; did you mean 'cell'?"),
        (["parts", "--import", "nowhere.py"], "nowhere.py is not a Python file"),
    ],
    ids=["unknown kind", "no such file"],
)
def test_a_mistake_is_said_in_one_line_with_exit_code_2(arguments, says):
    ran = command(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("seqloom: ")
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_broken_code_is_said_without_a_traceback(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("def (:\n")
    ran = command("parts", "--import", str(file))
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert "broken.py" in ran.stderr


@pytest.mark.parametrize("arguments", [["parts"], ["parts", "--json"], ["config"]], ids=" ".join)
def test_a_reader_who_has_had_enough_is_no_error(arguments):
    """As in ``seqloom parts | head -1``: with ``set -o pipefail`` a script would stop there."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as closed:
        ran = subprocess.run([sys.executable, "-m", "seqloom", *arguments], stdout=closed, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["parts", "--help"]], ids=" ".join)
def test_help(arguments):
    ran = command(*arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage" in ran.stdout


def test_an_unknown_command_is_refused():
    assert command("part").returncode == 2

"""``seqloom tasks``, and what the command line refuses of ``--task``."""

import json

import pytest

from seqloom.cli import app
from seqloom.errors import OptionError
from seqloom.registry import build, parts


def shown(capsys, *arguments: str) -> str:
    app(args=list(arguments), standalone_mode=False)
    return capsys.readouterr().out


def test_every_task_is_shown_with_a_sample_and_a_command(capsys):
    out = shown(capsys, "tasks")
    for name in parts("task"):
        source, target = build("task", name).test[0]
        assert f"    {source}  →  {target}\n" in out
        assert f"seqloom train --task {name} --out runs/{name}\n" in out


def test_as_json(capsys):
    listed = json.loads(shown(capsys, "tasks", "--json"))
    assert listed.keys() == parts("task").keys()
    for name, task in listed.items():
        assert [(pair["source"], pair["target"]) for pair in task["sample"]] == build("task", name).test[:3]
        assert task["metric"] == "exact"
        assert task["options"]["train"]["default"] > 1000


OWN = '''
from seqloom import register
from seqloom.tasks import Task

@register("task", "doubled")
class Doubled(Task):
    """Letters, twice."""
    fields = {"source": "character", "target": {"name": "character", "lowercase": True}}

    def pairs(self, part):
        return [(letter, letter + letter) for letter in {"train": "abcdefgh", "dev": "ij", "test": "kl"}[part]]
'''


def test_a_task_of_ones_own(tmp_path, capsys, monkeypatch):
    from seqloom import registry

    monkeypatch.setattr(registry, "_parts", {kind: dict(registry.parts(kind)) for kind in registry.KINDS})
    (tmp_path / "own.py").write_text(OWN)
    code = ["--code", str(tmp_path / "own.py")]
    assert "k  →  kk" in shown(capsys, "tasks", *code)
    quick = ["--set", "train.updates=2", "--set", "model.size=8"]
    shown(capsys, "train", "--task", "doubled", "--out", str(tmp_path / "run"), *code, *quick)
    out = shown(capsys, "evaluate", str(tmp_path / "run"), "--task", "doubled", "--bootstrap", "0", *code)
    assert "2 examples" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluate", "run"], "say what to evaluate on"),
        (["evaluate", "run", "--task", "copy", "--data", "x.tsv"], "say what to evaluate on"),
        (["evaluate", "run", "--task", "copy", "--header"], "leave them out with --task"),
        (["train", "--resume", "run", "--task", "copy"], "goes on with a run as it is"),
        (["train", "--task", "{", "--out", "run"], "neither a name nor YAML"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(OptionError) as raised:
        app(args=arguments, standalone_mode=False)
    assert says in str(raised.value)

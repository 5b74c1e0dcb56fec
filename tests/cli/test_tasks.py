"""``seqloom tasks``, and invalid uses of ``--task``."""

import json

import pytest

from seqloom.cli import app
from seqloom.errors import ConfigError
from seqloom.registry import build, parts


def run_cli(capsys, *arguments: str) -> str:
    app(args=list(arguments), standalone_mode=False)
    return capsys.readouterr().out


def test_tasks_lists_every_task_with_sample_and_command(capsys):
    out = run_cli(capsys, "tasks")
    for name in parts("task"):
        source, target = build("task", name).test[0]
        assert f"    {source}  →  {target}\n" in out
        assert f"seqloom train --task {name} --out runs/{name}\n" in out


def test_tasks_json(capsys):
    listed = json.loads(run_cli(capsys, "tasks", "--json"))
    assert listed.keys() == parts("task").keys()
    for name, task in listed.items():
        assert [(pair["source"], pair["target"]) for pair in task["sample"]] == build("task", name).test[:3]
        assert task["metric"] == "exact_match"
        assert task["options"]["train"]["default"] > 1000


CUSTOM_TASK = '''
from seqloom import register
from seqloom.tasks import Task

@register("task", "doubled")
class Doubled(Task):
    """Repeat each letter twice."""
    fields = {"source": "character", "target": {"name": "character", "lowercase": True}}

    def pairs(self, part):
        return [(letter, letter + letter) for letter in {"train": "abcdefgh", "dev": "ij", "test": "kl"}[part]]
'''


def test_custom_task_in_imported_file(tmp_path, capsys, monkeypatch):
    from seqloom import registry

    monkeypatch.setattr(registry, "_parts", {kind: dict(registry.parts(kind)) for kind in registry.KINDS})
    (tmp_path / "custom.py").write_text(CUSTOM_TASK)
    imports = ["--import", str(tmp_path / "custom.py")]
    assert "k  →  kk" in run_cli(capsys, "tasks", *imports)
    quick = ["--set", "train.updates=2", "--set", "model.hidden_size=8"]
    run_cli(capsys, "train", "--task", "doubled", "--out", str(tmp_path / "run"), *imports, *quick)
    out = run_cli(capsys, "evaluate", str(tmp_path / "run"), "--task", "doubled", "--bootstrap", "0", *imports)
    assert "2 examples" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "run"], "give the test data"),
        (["evaluate", "run", "--task", "copy", "--data", "x.tsv"], "either --data FILE… or --task TASK"),
        (["evaluate", "run", "--task", "copy", "--header"], "remove them with --task"),
        (["train", "--resume", "run", "--task", "copy"], "continues a run with its own configuration"),
        (["train", "--task", "{", "--out", "run"], "give a name, or YAML"),
    ],
)
def test_invalid_arguments_are_errors(arguments, message):
    with pytest.raises(ConfigError) as raised:
        app(args=arguments, standalone_mode=False)
    assert message in str(raised.value)

"""The command for continuing an improving run, as the log suggests it."""

import io
import re
import shlex

import pytest

from seqloom.cli import app
from seqloom.cli.files import expand_file_args
from seqloom.train.checkpoint import load_checkpoint
from seqloom.train.display import PlainDisplay
from seqloom.train.validator import Validator
from tests.train.small import trained, validations


@pytest.mark.parametrize("limit", [{"updates": 12}, {"updates": None, "epochs": 2}], ids=["updates", "epochs"])
def test_suggested_command_continues_improving_run(tmp_path, monkeypatch, limit):
    """The run continues after its last update, for as many updates again."""
    improving = iter(range(1000))
    validate = Validator.__call__

    def better_each_time(*arguments):
        result = validate(*arguments)
        return result._replace(metrics={**result.metrics, "exact_match": 50.0 + next(improving)})

    monkeypatch.setattr(Validator, "__call__", better_each_time)
    shown = io.StringIO()
    folder = trained(tmp_path / "a run", {"train": limit}, display=PlainDisplay(shown))
    (command,) = re.findall(r"To continue it: (seqloom .*)", shown.getvalue())
    before = [record["update"] for record in validations(folder)]
    app(args=expand_file_args(shlex.split(command)[1:]), standalone_mode=False)
    after = [record["update"] for record in validations(folder)]
    assert after[: len(before)] == before
    assert after[-1] == load_checkpoint(folder.checkpoint)["trainer"]["update"] == 2 * before[-1]

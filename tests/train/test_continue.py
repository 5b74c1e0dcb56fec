"""The command that the end of training recommends, run as a person would run it."""

import io
import re
import shlex

import pytest

from seqloom.cli import app
from seqloom.cli.files import gathered
from seqloom.train.checkpoint import load_checkpoint
from seqloom.train.display import PlainDisplay
from seqloom.train.judge import Judge
from tests.train.small import evaluations, trained


@pytest.mark.parametrize("limit", [{"updates": 12}, {"updates": None, "epochs": 2}], ids=["updates", "epochs"])
def test_the_command_that_continues_an_improving_run_works(tmp_path, monkeypatch, limit):
    """The run goes on after its last update, for as long again."""
    improving = iter(range(1000))
    judge = Judge.__call__

    def better_each_time(*arguments):
        found = judge(*arguments)
        return found._replace(metrics={**found.metrics, "exact": 50.0 + next(improving)})

    monkeypatch.setattr(Judge, "__call__", better_each_time)
    shown = io.StringIO()
    folder = trained(tmp_path / "a run", {"train": limit}, display=PlainDisplay(shown))
    (command,) = re.findall(r"To continue it: (seqloom .*)", shown.getvalue())
    before = [record["update"] for record in evaluations(folder)]
    app(args=gathered(shlex.split(command)[1:]), standalone_mode=False)
    after = [record["update"] for record in evaluations(folder)]
    assert after[: len(before)] == before
    assert after[-1] == load_checkpoint(folder.checkpoint)["standing"]["update"] == 2 * before[-1]

"""``seqloom demo``."""

import re
import signal
import sys

import pytest

from seqloom.cli import app
from seqloom.merge import merge
from seqloom.train.display import PlainDisplay


def run_demo(capsys) -> str:
    app(args=["demo"], standalone_mode=False)
    return capsys.readouterr().out


@pytest.fixture
def short(monkeypatch):
    """Train for three updates only."""
    module = sys.modules["seqloom.cli.demo"]
    quick = {"model": {"hidden_size": 16}, "train": {"updates": 3, "evaluate_every": 2}}
    monkeypatch.setattr(module, "TASK", {"name": "dates", "train": 500, "dev": 20, "test": 30})
    monkeypatch.setattr(module, "SETTINGS", merge(module.SETTINGS, quick))


def test_demo_trains_and_shows_predictions(short, capsys):
    out = run_demo(capsys)
    assert re.search(r"exact match on 30 test dates: \d+\.\d %", out)
    assert "en_US 1/2/2024  →  " in out
    assert "What to try next" in out


def test_interrupted_demo_shows_no_predictions(short, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(PlainDisplay, "validated", lambda self, event: signal.raise_signal(signal.SIGINT))
    for more in ([], ["--out", str(tmp_path / "run")]):
        assert app(args=["demo", *more], standalone_mode=False) == 130
        out, err = capsys.readouterr()
        assert "exact match" not in out
        assert ("--resume" in err) == bool(more)


@pytest.mark.slow
def test_demo_learns_the_task(capsys):
    """Exact match of at least 99 % after two minutes of training."""
    found = re.search(r"exact match on 1,000 test dates: (\d+\.\d) %", run_demo(capsys))
    assert float(found[1]) >= 99

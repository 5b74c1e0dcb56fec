"""``seqloom demo``."""

import re
import signal
import sys

import pytest

from seqloom.cli import app
from seqloom.merge import merge
from seqloom.train.display import PlainDisplay


def shown(capsys) -> str:
    app(args=["demo"], standalone_mode=False)
    return capsys.readouterr().out


@pytest.fixture
def short(monkeypatch):
    """Three updates will do."""
    module = sys.modules["seqloom.cli.demo"]
    quick = {"model": {"size": 16}, "train": {"updates": 3, "evaluate_every": 2}}
    monkeypatch.setattr(module, "TASK", {"name": "dates", "train": 500, "dev": 20, "test": 30})
    monkeypatch.setattr(module, "SETTINGS", merge(module.SETTINGS, quick))


def test_it_trains_and_shows_what_it_learned(short, capsys):
    out = shown(capsys)
    assert re.search(r"exact match on 30 unseen dates: \d+\.\d %", out)
    assert "en_US 1/2/2024  →  " in out
    assert "What to try next" in out


def test_what_was_stopped_is_not_shown_as_learned(short, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(PlainDisplay, "judged", lambda self, judged: signal.raise_signal(signal.SIGINT))
    for more in ([], ["--out", str(tmp_path / "run")]):
        assert app(args=["demo", *more], standalone_mode=False) == 130
        out, err = capsys.readouterr()
        assert "exact match" not in out
        assert ("--resume" in err) == bool(more)


@pytest.mark.slow
def test_it_learns_the_task(capsys):
    """To 99 % and more: two minutes."""
    found = re.search(r"exact match on 1,000 unseen dates: (\d+\.\d) %", shown(capsys))
    assert float(found[1]) >= 99

"""``seqloom demo``."""

import re

import pytest

from seqloom.cli import app
from seqloom.config import merge


def shown(capsys) -> str:
    app(args=["demo"], standalone_mode=False)
    return capsys.readouterr().out


def test_it_trains_and_shows_what_it_learned(monkeypatch, capsys):
    """Cut short."""
    import sys

    module = sys.modules["seqloom.cli.demo"]
    quick = {"model": {"size": 16}, "train": {"updates": 3, "evaluate_every": 3}}
    monkeypatch.setattr(module, "TASK", {"name": "dates", "train": 500, "dev": 20, "test": 30})
    monkeypatch.setattr(module, "SETTINGS", merge(module.SETTINGS, quick))
    out = shown(capsys)
    assert re.search(r"exact match on 30 unseen dates: \d+\.\d %", out)
    assert "en_US 1/2/2024  →  " in out
    assert "What to try next" in out


@pytest.mark.slow
def test_it_learns_the_task(capsys):
    """To 99 % and more: two minutes."""
    found = re.search(r"exact match on 1,000 unseen dates: (\d+\.\d) %", shown(capsys))
    assert float(found[1]) >= 99

"""Progress displays of training."""

import io

import pytest
from rich.console import Console

from seqloom.train.display import LiveDisplay, PlainDisplay, Progress, ValidationEvent, display_for, duration

PROGRESS = Progress(
    epoch=3, update=250, updates=1000, loss=2.3, nll_loss=2.0, lr=1e-3, tokens_per_second=4321, seconds_left=75
)
VALIDATION = ValidationEvent(
    250, {"loss": 1.5, "bleu": 20.25}, "bleu", True, 0, "ein [bold] Hund", "a dog", "one dog"
)
FIELDS = (
    "epoch 3",
    "update 250/1000",
    "loss 2.3000",
    "perplexity 7.39",
    "lr 0.001",
    "4,321 tokens/s",
    "1:15 left",
    "ein [bold] Hund",
)


def test_plain_display():
    shown = io.StringIO()
    display = PlainDisplay(shown)
    display.progress(PROGRESS)
    display.validated(VALIDATION)
    display.working("train: encoding", 8192)  # too early for another line
    assert all(field in shown.getvalue() for field in FIELDS)
    assert "bleu 20.25  loss 1.50  *best*" in shown.getvalue()
    assert "a dog\n    ≠ one dog" in shown.getvalue()
    assert "encoding" not in shown.getvalue()


def test_live_display_shows_same_fields():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    display = LiveDisplay(console)
    display.say("[said]")
    display.working("train: encoding", 8192)
    display.progress(PROGRESS)
    display.validated(VALIDATION)
    display.close()
    shown = console.export_text()
    assert all(field in shown for field in ("[said]", " 25 %", "one dog", *FIELDS))


def test_correct_hypothesis_is_shown_without_reference():
    shown = io.StringIO()
    PlainDisplay(shown).validated(ValidationEvent(1, {"exact_match": 100.0}, "exact_match", False, 0, "s", "t", "t"))
    assert "≠" not in shown.getvalue()
    assert "best" not in shown.getvalue()


def test_display_is_plain_without_terminal():
    assert type(display_for(io.StringIO())) is PlainDisplay


@pytest.mark.parametrize(
    ("seconds", "shown"), [(5, "0:05"), (75.4, "1:15"), (3599.7, "1:00:00"), (float("inf"), "?"), (float("nan"), "?")]
)
def test_duration(seconds, shown):
    assert duration(seconds) == shown

"""What a person sees while a model trains."""

import io

import pytest
from rich.console import Console

from seqloom.train.display import Judged, LiveDisplay, PlainDisplay, Progress, clock, display_for

PROGRESS = Progress(
    epoch=3, update=250, updates=1000, loss=2.3, plain_loss=2.0, rate=1e-3, tokens_per_second=4321, seconds_left=75
)
JUDGED = Judged(250, {"loss": 1.5, "bleu": 20.25}, "bleu", True, 0, "ein [bold] Hund", "a dog", "one dog")
FACTS = (
    "epoch 3",
    "update 250/1000",
    "loss 2.3000",
    "perplexity 7.39",
    "4,321 tokens/s",
    "1:15 left",
    "ein [bold] Hund",
)


def test_plain_lines():
    shown = io.StringIO()
    display = PlainDisplay(shown)
    display.progress(PROGRESS)
    display.judged(JUDGED)
    display.working("train: encoding", 8192)  # too soon to be worth a line
    assert all(fact in shown.getvalue() for fact in FACTS)
    assert "bleu 20.25  loss 1.50  *best*" in shown.getvalue()
    assert "a dog\n    ≠ one dog" in shown.getvalue()
    assert "encoding" not in shown.getvalue()


def test_a_live_display_shows_the_same():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    display = LiveDisplay(console)
    display.say("[said]")
    display.working("train: encoding", 8192)
    display.progress(PROGRESS)
    display.judged(JUDGED)
    display.close()
    shown = console.export_text()
    assert all(fact in shown for fact in ("[said]", " 25 %", "one dog", *FACTS))


def test_a_right_answer_is_shown_once():
    shown = io.StringIO()
    PlainDisplay(shown).judged(Judged(1, {"exact": 100.0}, "exact", False, 0, "s", "t", "t"))
    assert "≠" not in shown.getvalue()
    assert "best" not in shown.getvalue()


def test_only_a_terminal_gets_a_live_display():
    assert type(display_for(io.StringIO())) is PlainDisplay


@pytest.mark.parametrize(
    ("seconds", "shown"), [(5, "0:05"), (75.4, "1:15"), (3599.7, "1:00:00"), (float("inf"), "?"), (float("nan"), "?")]
)
def test_clock(seconds, shown):
    assert clock(seconds) == shown

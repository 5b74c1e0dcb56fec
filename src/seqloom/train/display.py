"""What a person sees while a model trains: a live display in a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

SECONDS_BETWEEN = 5.0
"""Between two lines about work on data, where nothing is drawn."""


@dataclass(frozen=True)
class Progress:
    """Where training stands: means and the speed since the last report.

    loss: what training makes smaller, with its smoothing of labels.
    plain_loss: without it: −log p of what is right, by token.
    """

    epoch: int
    update: int
    updates: int
    loss: float
    plain_loss: float
    rate: float
    tokens_per_second: float
    seconds_left: float

    @property
    def perplexity(self) -> float:
        """Of the training data, as it is fed: with dropout at work."""
        return math.exp(min(self.plain_loss, 700.0))


@dataclass(frozen=True)
class Judged:
    """What an evaluation on dev gave: metrics by name, the one that decides, and one answer to look at.

    truncated: how many outputs ended before the model ended them.
    """

    update: int
    metrics: Mapping[str, float]
    decides: str
    is_best: bool
    truncated: int
    source: str
    answer: str
    reference: str


class Display:
    """Shows nothing: what ``fit(quiet=True)`` uses, and the base of those that show something."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def working(self, what: str, count: int) -> None:
        """How many pairs something has been done to."""

    def progress(self, progress: Progress) -> None:
        """Where training stands."""

    def judged(self, judged: Judged) -> None:
        """What an evaluation gave."""

    def close(self) -> None:
        """The end, also after an error."""


class PlainDisplay(Display):
    """Lines, for logs and pipes."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr
        self.told = time.monotonic()

    def say(self, text: str) -> None:
        print(text, file=self.file, flush=True)

    def working(self, what: str, count: int) -> None:
        if time.monotonic() - self.told > SECONDS_BETWEEN:  # what is soon done needs no word
            self.told = time.monotonic()
            self.say(f"{what}: {count:,} pairs")

    def progress(self, progress: Progress) -> None:
        self.say("  ".join(facts(progress)))

    def judged(self, judged: Judged) -> None:
        self.say(f"update {judged.update}  dev {summary(judged)}")
        self.say(
            f"    {judged.source}\n    → {judged.answer}" + ("" if agrees(judged) else f"\n    ≠ {judged.reference}")
        )


class LiveDisplay(Display):
    """A bar that moves, the last evaluation and a sample answer below it; lines that stay scroll past above."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.last: Progress | None = None
        self.seen: Judged | None = None
        self.live = Live(console=self.console, refresh_per_second=4, transient=False)
        self.live.start()

    def say(self, text: str) -> None:
        self.console.print(escape(text), highlight=False)

    def working(self, what: str, count: int) -> None:
        self.live.update(Text(f"{what}: {count:,} pairs"))

    def progress(self, progress: Progress) -> None:
        self.last = progress
        self._draw()

    def judged(self, judged: Judged) -> None:
        self.seen = judged
        style = "bold green" if judged.is_best else "dim"
        self.console.print(Text(f"update {judged.update:>7}  dev {summary(judged)}", style=style))
        self._draw()

    def close(self) -> None:
        self.live.stop()

    def _draw(self) -> None:
        parts: list[Table | Text | ProgressBar] = []
        if self.last is not None:
            bar = Table.grid(padding=(0, 1))
            share = f"{100 * self.last.update // self.last.updates:3d} %"
            bar.add_row(ProgressBar(self.last.updates, self.last.update, width=40), share)
            parts += [bar, Text("  ".join(facts(self.last)))]
        if self.seen is not None:
            sample = Table.grid(padding=(0, 1))
            sample.add_row(Text("source", style="dim"), Text(self.seen.source))
            sample.add_row(Text("answer", style="dim"), Text(self.seen.answer, style="cyan"))
            if not agrees(self.seen):
                sample.add_row(Text("wanted", style="dim"), Text(self.seen.reference))
            parts.append(sample)
        self.live.update(Group(*parts))


def display_for(stream: TextIO | None = None) -> Display:
    """Live in a terminal, plain elsewhere."""
    stream = stream or sys.stderr
    return LiveDisplay(Console(file=stream)) if stream.isatty() else PlainDisplay(stream)


def facts(progress: Progress) -> list[str]:
    """A progress in words."""
    return [
        f"epoch {progress.epoch}",
        f"update {progress.update}/{progress.updates}",
        f"loss {progress.loss:.4f}",
        f"perplexity {progress.perplexity:.2f}",
        f"{progress.tokens_per_second:,.0f} tokens/s",
        f"{clock(progress.seconds_left)} left",
    ]


def summary(judged: Judged) -> str:
    """The metrics of an evaluation in one line, the one that decides in front."""
    order = sorted(judged.metrics, key=lambda name: name != judged.decides)
    words = [f"{name} {judged.metrics[name]:.2f}" for name in order]
    words += [f"{judged.truncated:,} truncated"] * bool(judged.truncated) + ["*best*"] * judged.is_best
    return "  ".join(words)


def agrees(judged: Judged) -> bool:
    """Whether the sample answer is the reference."""
    return judged.answer == judged.reference


def clock(seconds: float) -> str:
    """75 → 1:15."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

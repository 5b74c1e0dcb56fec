"""Progress of training: a live display in a terminal, plain lines elsewhere."""

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
"""Minimum time between two progress lines of data preparation in plain output."""


@dataclass(frozen=True)
class Progress:
    """Progress of training; loss and speed are averages since the last report.

    loss: training loss per target token, with label smoothing.
    nll_loss: negative log-likelihood of the reference per target token, without label smoothing.
    lr: learning rate of the last update.
    """

    epoch: int
    update: int
    updates: int
    loss: float
    nll_loss: float
    lr: float
    tokens_per_second: float
    seconds_left: float

    @property
    def perplexity(self) -> float:
        """Perplexity of the training data, measured with dropout enabled."""
        return math.exp(min(self.nll_loss, 700.0))


@dataclass(frozen=True)
class ValidationEvent:
    """Result of a validation: metrics by name, and one example.

    primary_metric: name of the validation metric.
    truncated: number of outputs truncated at the maximum length.
    """

    update: int
    metrics: Mapping[str, float]
    primary_metric: str
    is_best: bool
    truncated: int
    source: str
    hypothesis: str
    reference: str


class Display:
    """Shows nothing, as in ``fit(quiet=True)``; base class of the other displays."""

    def say(self, text: str) -> None:
        """Show a message."""

    def working(self, what: str, count: int) -> None:
        """Show the progress of data preparation: ``count`` pairs are done."""

    def progress(self, progress: Progress) -> None:
        """Show the progress of training."""

    def validated(self, validated: ValidationEvent) -> None:
        """Show the result of a validation."""

    def close(self) -> None:
        """Close the display; also called after an error."""


class PlainDisplay(Display):
    """Plain lines, for log files and pipes."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr
        self.last_shown = time.monotonic()

    def say(self, text: str) -> None:
        print(text, file=self.file, flush=True)

    def working(self, what: str, count: int) -> None:
        if time.monotonic() - self.last_shown > SECONDS_BETWEEN:  # short work is not reported
            self.last_shown = time.monotonic()
            self.say(f"{what}: {count:,} pairs")

    def progress(self, progress: Progress) -> None:
        self.say("  ".join(progress_fields(progress)))

    def validated(self, validated: ValidationEvent) -> None:
        self.say(f"update {validated.update}  dev {metrics_line(validated)}")
        self.say(
            f"    {validated.source}\n    → {validated.hypothesis}"
            + ("" if is_correct(validated) else f"\n    ≠ {validated.reference}")
        )


class LiveDisplay(Display):
    """A progress bar, with an example of the last validation below it; messages scroll above it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.last_progress: Progress | None = None
        self.last_validation: ValidationEvent | None = None
        self.live = Live(console=self.console, refresh_per_second=4, transient=False)
        self.live.start()

    def say(self, text: str) -> None:
        self.console.print(escape(text), highlight=False)

    def working(self, what: str, count: int) -> None:
        self.live.update(Text(f"{what}: {count:,} pairs"))

    def progress(self, progress: Progress) -> None:
        self.last_progress = progress
        self._draw()

    def validated(self, validated: ValidationEvent) -> None:
        self.last_validation = validated
        style = "bold green" if validated.is_best else "dim"
        self.console.print(Text(f"update {validated.update:>7}  dev {metrics_line(validated)}", style=style))
        self._draw()

    def close(self) -> None:
        self.live.stop()

    def _draw(self) -> None:
        parts: list[Table | Text | ProgressBar] = []
        progress, validation = self.last_progress, self.last_validation
        if progress is not None:
            bar = Table.grid(padding=(0, 1))
            percent = f"{100 * progress.update // progress.updates:3d} %"
            bar.add_row(ProgressBar(progress.updates, progress.update, width=40), percent)
            parts += [bar, Text("  ".join(progress_fields(progress)))]
        if validation is not None:
            example = Table.grid(padding=(0, 1))
            example.add_row(Text("source", style="dim"), Text(validation.source))
            example.add_row(Text("hypothesis", style="dim"), Text(validation.hypothesis, style="cyan"))
            if not is_correct(validation):
                example.add_row(Text("reference", style="dim"), Text(validation.reference))
            parts.append(example)
        self.live.update(Group(*parts))


def display_for(stream: TextIO | None = None) -> Display:
    """A live display if the stream is a terminal, else plain lines."""
    stream = stream or sys.stderr
    return LiveDisplay(Console(file=stream)) if stream.isatty() else PlainDisplay(stream)


def progress_fields(progress: Progress) -> list[str]:
    """The fields of a progress line."""
    return [
        f"epoch {progress.epoch}",
        f"update {progress.update}/{progress.updates}",
        f"loss {progress.loss:.4f}",
        f"perplexity {progress.perplexity:.2f}",
        f"lr {progress.lr:.3g}",
        f"{progress.tokens_per_second:,.0f} tokens/s",
        f"{duration(progress.seconds_left)} left",
    ]


def metrics_line(validated: ValidationEvent) -> str:
    """The metrics of a validation in one line, starting with the validation metric."""
    order = sorted(validated.metrics, key=lambda name: name != validated.primary_metric)
    words = [f"{name} {validated.metrics[name]:.2f}" for name in order]
    words += [f"{validated.truncated:,} truncated"] * bool(validated.truncated) + ["*best*"] * validated.is_best
    return "  ".join(words)


def is_correct(validated: ValidationEvent) -> bool:
    """Whether the hypothesis of the example equals the reference."""
    return validated.hypothesis == validated.reference


def duration(seconds: float) -> str:
    """Seconds as minutes and seconds, or hours: 75 → 1:15."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

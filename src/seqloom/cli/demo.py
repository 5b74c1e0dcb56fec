"""``seqloom demo``."""

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from seqloom.cli.train import INTERRUPTED

TASK = {"name": "dates", "train": 110_000}
SETTINGS: dict[str, Any] = {
    "model": {"preset": "recurrent", "hidden_size": 128, "dropout": 0.0, "output": {"label_smoothing": 0.0}},
    "train": {"batch_sentences": 128, "epochs": 1, "evaluate_every": 250, "optimizer": {"lr": 5e-3}},
    "search": "greedy",
}
"""Tuned by hand: large batches with a high learning rate are fastest, and generated data needs no regularization."""
EXAMPLES = (
    "en_US 1/2/2024",
    "en_GB 1/2/2024",
    "de_DE Freitag, 13. Juni 1969",
    "ja_JP 2031年12月24日",
    "ar_EG ٢٥ يناير ٢٠١١",
)


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Directory to keep the run in; by default, the run is deleted.")
    ] = None,
) -> None:
    """Train a date normalization model in two minutes, and show its predictions and attention."""
    from seqloom.api import load
    from seqloom.cli.console import Console
    from seqloom.cli.draw import alignment
    from seqloom.config import make_config
    from seqloom.registry import build
    from seqloom.train.display import display_for
    from seqloom.train.run import train

    console = Console(highlight=False)
    task = build("task", TASK)
    console.print("[bold]Task: convert localized dates to ISO 8601.[/] Examples:")
    for source, target in task.test[:3]:
        console.print(f"    {source}  →  {target}", markup=False)
    display = display_for()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "dates" if out is None else out
        try:
            run = train(
                make_config({"data": {"task": TASK}}, SETTINGS), folder, display=display, command="seqloom demo"
            )
        finally:
            display.close()
        if not run.finished:
            if out is not None:
                print(f"seqloom: {run.resume_hint}", file=sys.stderr)
            raise typer.Exit(INTERRUPTED)
        model = load(folder)
    predictions = model.predict([source for source, _ in task.test])
    correct = sum(prediction == target for prediction, (_, target) in zip(predictions, task.test, strict=True))
    console.print(f"\nexact match on {len(task.test):,} test dates: {100 * correct / len(task.test):.1f} %\n")
    for (prediction,) in model.generate(EXAMPLES):
        console.print(f"{''.join(prediction.source_tokens)}  →  [bold]{prediction.text}[/]")
        if prediction.attention is not None:
            rows = [*prediction.tokens, *["∎"] * prediction.finished]
            console.print(alignment(prediction.source_tokens, rows, prediction.attention.tolist()))
        console.print()
    name = "RUN" if out is None else shlex.quote(str(out))
    keep = "seqloom demo --out RUN    # keep the run, then:\n    " if out is None else ""
    console.print(
        "Attention weights: one row per output character (∎ is EOS), one column per source character; darker is "
        "higher.\n\n"
        "What to try next:\n"
        f"    {keep}echo 'fr_FR 14 juillet 1989' | seqloom predict {name}\n"
        "    seqloom tasks    # other tasks to train on\n"
        "    seqloom train --train pairs.tsv --out runs/mine    # train on your own data\n"
        "    seqloom parts    # all cells, attention functions, searches, …",
        markup=False,
        soft_wrap=True,
    )

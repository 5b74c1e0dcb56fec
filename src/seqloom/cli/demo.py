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
    "model": {"preset": "recurrent", "size": 128, "dropout": 0.0, "output": {"label_smoothing": 0.0}},
    "data": {"source": "character", "target": "character"},
    "train": {"batch_sentences": 128, "epochs": 1, "evaluate_every": 250, "optimiser": {"rate": 5e-3}},
    "search": "greedy",
}
"""Found by trying: large batches at a high rate learn this task fastest, and made data can't be learned by heart."""
SHOWN = (
    "en_US 1/2/2024",
    "en_GB 1/2/2024",
    "de_DE Freitag, 13. Juni 1969",
    "ja_JP 2031年12月24日",
    "ar_EG ٢٥ يناير ٢٠١١",
)


def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder.")] = None,
) -> None:
    """Train on dates as people write them, in two minutes, and show what was learned."""
    from seqloom.api import load
    from seqloom.cli.console import Console
    from seqloom.cli.draw import alignment
    from seqloom.config import make_config
    from seqloom.data.examples import Example
    from seqloom.registry import build
    from seqloom.train.display import display_for
    from seqloom.train.start import train

    console = Console(highlight=False)
    task = build("task", TASK)
    console.print("[bold]Dates as people write them → ISO 8601.[/] For example:")
    for source, target in task.test[:3]:
        console.print(f"    {source}  →  {target}", markup=False)
    display = display_for()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "dates" if out is None else out
        try:
            run = train(
                make_config(SETTINGS),
                folder,
                display=display,
                train_examples=[Example(*pair) for pair in task.train],
                dev_examples=[Example(*pair) for pair in task.dev],
                command="seqloom demo",
            )
        finally:
            display.close()
        if not run.finished:
            if out is not None:
                print(f"seqloom: {run.to_go_on}", file=sys.stderr)
            raise typer.Exit(INTERRUPTED)
        model = load(folder)
    answers = model.predict([source for source, _ in task.test])
    right = sum(answer == target for answer, (_, target) in zip(answers, task.test, strict=True))
    console.print(f"\nexact match on {len(task.test):,} unseen dates: {100 * right / len(task.test):.1f} %\n")
    for (answer,) in model.answers(SHOWN):
        console.print(f"{''.join(answer.source_tokens)}  →  [bold]{answer.text}[/]")
        if answer.weights is not None:
            written = [*answer.tokens, *["∎"] * answer.finished]
            console.print(alignment(answer.source_tokens, written, answer.weights.tolist()))
        console.print()
    name = "RUN" if out is None else shlex.quote(str(out))
    keep = "seqloom demo --out RUN    # keep the run, then:\n    " if out is None else ""
    console.print(
        "A row is a character written (∎: the end); the darker, the more it looked at that one of the source.\n\n"
        "What to try next:\n"
        f"    {keep}echo 'fr_FR 14 juillet 1989' | seqloom predict {name}\n"
        "    seqloom train --train pairs.tsv --out runs/mine    # pairs of your own\n"
        "    seqloom parts    # everything a model can be made of",
        markup=False,
        soft_wrap=True,
    )

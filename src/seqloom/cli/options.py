"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

PAIRS = "train.{de,en}, or one TSV, JSONL or Parquet file"

Run = Annotated[Path, typer.Argument(help="The folder of a run.")]
TrainFiles = Annotated[
    list[str] | None, typer.Option(metavar="FILE…", help=f"What to learn from: {PAIRS}, or a prepared folder.")
]
DevFiles = Annotated[
    list[str] | None, typer.Option(metavar="FILE…", help="What to judge by; else a part of train is held out.")
]
DataFiles = Annotated[list[str], typer.Option(metavar="FILE…", help="Sources and references, in files like train's.")]
Preset = Annotated[str | None, typer.Option(help="A published architecture: bahdanau, luong, transformer, …")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set anything, e.g. model.encoder.layers=2. Repeatable."),
]
Search = Annotated[str | None, typer.Option(help="How answers are found: greedy, '{name: beam, width: 10}', …")]
Device = Annotated[str, typer.Option(help="cpu, cuda, …; auto: the best that is there.")]
Code = Annotated[Path | None, typer.Option(help="A Python file that registers parts of your own.")]

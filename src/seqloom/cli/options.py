"""Options that several commands have."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

if TYPE_CHECKING:
    from seqloom.data.readers import Files, Format

PAIRS = "train.{de,en}, or one TSV, JSONL or Parquet file"

Runs = Annotated[list[Path], typer.Argument(metavar="RUN…", help="The folder of a run; several: an ensemble.")]
TrainFiles = Annotated[
    list[str] | None, typer.Option(metavar="FILE…", help=f"What to learn from: {PAIRS}, or a prepared folder.")
]
DevFiles = Annotated[
    list[str] | None, typer.Option(metavar="FILE…", help="What to judge by; else a part of train is held out.")
]
DataFiles = Annotated[list[str], typer.Option(metavar="FILE…", help="Sources and references, in files like train's.")]
TaskName = Annotated[
    str | None,
    typer.Option("--task", metavar="TASK", help="A task (seqloom tasks): dates, '{name: dates, train: 5000}', …"),
]
Preset = Annotated[str | None, typer.Option(help="A published architecture: bahdanau, luong, transformer, …")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set anything, e.g. model.encoder.layers=2. Repeatable."),
]
DataFormat = Annotated[
    str | None, typer.Option("--format", help="Of --data: lines, tsv, jsonl or parquet; else by its name.")
]
Columns = Annotated[str | None, typer.Option(help="Columns of source and target: 0,1 or source,target.")]
Header = Annotated[bool, typer.Option("--header", help="A TSV's first line names its columns.")]
Search = Annotated[str | None, typer.Option(help="How answers are found: greedy, beam, sample, …; see below.")]
Prefix = Annotated[str | None, typer.Option(help="What every answer begins with.")]
Forbid = Annotated[list[str] | None, typer.Option(help="A word or phrase in no answer. Repeatable.")]
Require = Annotated[list[str] | None, typer.Option(help="A word or phrase in every answer. Repeatable.")]
NoRepeat = Annotated[int | None, typer.Option(help="No sequence of this many tokens comes twice.")]
RepetitionPenalty = Annotated[float | None, typer.Option(help="Above 1: tokens are less likely again.")]
Grammar = Annotated[str | None, typer.Option(help="A task whose grammar answers obey: dates.")]
Average = Annotated[str | None, typer.Option(help="What an ensemble averages: probabilities or log_probabilities.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, …; auto: the best that is there.")]
Engine = Annotated[str | None, typer.Option(help="What computes, if not PyTorch: onnx, ctranslate2, …; see export.")]


def imported(files: list[Path] | None) -> list[Path] | None:
    """Register the parts of files, before anything else of a command asks for one."""
    from seqloom.registry import import_file

    for file in files or ():
        import_file(file)
    return files


Imports = Annotated[
    list[Path] | None,
    typer.Option(
        "--import",
        metavar="FILE",
        callback=imported,
        help="A Python file that registers parts of your own. Repeatable.",
    ),
]


def constraints_given(
    prefix: str | None,
    forbid: list[str] | None,
    require: list[str] | None,
    no_repeat: int | None,
    repetition_penalty: float | None,
    grammar: str | None,
) -> dict[str, Any]:
    """The constraints that were typed, by name."""
    return {name: value for name, value in locals().items() if value is not None}


def data_files(data: list[str], form: str | None, columns: str | None, header: bool) -> "Files":
    """The files of --data; columns: ``0,1`` or ``source,target``."""
    from seqloom.data.readers import Files, Format
    from seqloom.errors import unknown

    if form is not None and form not in get_args(Format):
        raise unknown("format", form, get_args(Format))
    names = None if columns is None else [column.strip() for column in columns.split(",")]
    wanted = None if names is None else [int(name) if name.isdigit() else name for name in names]
    return Files.of(data, format=cast("Format | None", form), columns=wanted, header=header)

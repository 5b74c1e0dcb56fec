"""Options shared by several commands."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from seqloom.data.readers import Files

PAIRS = "train.{de,en}, or one TSV, JSONL or Parquet file"

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Directory of a run; several form an ensemble.")]
TrainFiles = Annotated[
    list[str] | None, typer.Option(metavar="FILE…", help=f"Training data: {PAIRS}, or a prepared corpus.")
]
DevFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE…", help="Validation data; by default, a part of the training data is held out."),
]
_DATA = typer.Option(metavar="FILE…", help=f"Sources and references: {PAIRS}.")
DataFiles = Annotated[list[str], _DATA]
OptionalDataFiles = Annotated[list[str] | None, _DATA]
TaskName = Annotated[
    str | None,
    typer.Option("--task", metavar="TASK", help="Generated task instead of files: dates, copy, … (seqloom tasks)."),
]
Preset = Annotated[str | None, typer.Option(help="Published architecture: bahdanau, luong, transformer, …")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a setting, e.g. model.encoder.layers=2 (seqloom config). Repeatable.",
    ),
]
DataFormat = Annotated[
    str | None,
    typer.Option("--format", help="File format: lines, tsv, jsonl, parquet, …; default: from the file name."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns of source and target, by name or number from 0: 0,2 or '{source: lemma, target: form}'."
    ),
]
Header = Annotated[bool, typer.Option("--header", help="The first line of a TSV file holds column names.")]
Search = Annotated[
    str | None,
    typer.Option(help="Decoding strategy: greedy, beam, sample, … (seqloom parts search); default: the run's."),
]
Prefix = Annotated[str | None, typer.Option(help="Text that every output starts with.")]
Forbid = Annotated[list[str] | None, typer.Option(help="Word or phrase that no output may contain. Repeatable.")]
Require = Annotated[
    list[str] | None, typer.Option(help="Word or phrase that every output must contain (beam search). Repeatable.")
]
NoRepeat = Annotated[int | None, typer.Option(help="No n-gram of this many tokens occurs twice in an output.")]
RepetitionPenalty = Annotated[
    float | None, typer.Option(help="Penalty on tokens that have already occurred; above 1 makes them less likely.")
]
Grammar = Annotated[str | None, typer.Option(help="Task whose grammar every output must follow: dates.")]
EnsembleMode = Annotated[str | None, typer.Option(help="What an ensemble averages: probs (default) or log_probs.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, …; auto selects an accelerator if there is one.")]
Engine = Annotated[
    str | None, typer.Option(help="Inference engine: onnx, ctranslate2, … (seqloom export); default: PyTorch.")
]


def import_parts(files: list[Path] | None) -> list[Path] | None:
    """Register the parts in the files; a callback, so that it runs before the command."""
    from seqloom.registry import import_file

    for file in files or ():
        import_file(file)
    return files


Imports = Annotated[
    list[Path] | None,
    typer.Option(
        "--import",
        metavar="FILE",
        callback=import_parts,
        help="Python file that registers your own parts. Repeatable.",
    ),
]


def constraints_given(
    prefix: str | None,
    forbid: list[str] | None,
    require: list[str] | None,
    no_repeat_ngram_size: int | None,
    repetition_penalty: float | None,
    grammar: str | None,
) -> dict[str, Any]:
    """The constraints that were given, by name."""
    return {name: value for name, value in locals().items() if value is not None}


def data_files(
    data: list[str], form: str | None, columns: str | None, header: bool, *, fields: Iterable[str]
) -> "Files":
    """The files of --data; fields: names of the fields that the model reads."""
    from seqloom.data.readers import Files

    return Files.of(data, format=form, columns=columns_given(columns), header=header, fields=fields)


def data_given(
    train: list[str] | None, dev: list[str] | None, form: str | None, columns: str | None, header: bool
) -> dict[str, Any]:
    """The options that were given, as the section ``data`` of a configuration."""
    given = {"train": train, "dev": dev, "format": form, "columns": columns_given(columns), "header": header}
    return {name: value for name, value in given.items() if value}


def columns_given(text: str | None) -> Any:
    """``0,2``, ``lemma,form`` or ``{source: lemma, target: form}`` as data."""
    from seqloom.cli.values import parse_yaml

    if text is None or text.lstrip().startswith(("{", "[")):
        return None if text is None else parse_yaml(text)
    names = [name.strip() for name in text.split(",")]
    return [int(name) if name.isdecimal() else name for name in names]

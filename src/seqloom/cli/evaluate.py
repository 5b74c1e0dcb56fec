"""``seqloom evaluate``."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import (
    Average,
    Columns,
    DataFiles,
    DataFormat,
    Device,
    Engine,
    Forbid,
    Grammar,
    Header,
    Imports,
    NoRepeat,
    Prefix,
    RepetitionPenalty,
    Require,
    Runs,
    Search,
    TaskName,
    constraints_given,
    data_files,
)


def called(runs: list[Path]) -> str:
    """What a run, or an ensemble of several, is called beside another."""
    return " + ".join(map(str, runs))


def evaluate(
    context: typer.Context,
    runs: Runs,
    data: DataFiles | None = None,
    task: TaskName = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Another run, to be compared with by a paired test; repeated: an ensemble."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="bleu, '{name: bleu, lowercase: true}', …; mbr's own: --search '{name: mbr, metric: …}'"),
    ] = None,
    search: Search = None,
    prefix: Prefix = None,
    forbid: Forbid = None,
    require: Require = None,
    no_repeat: NoRepeat = None,
    repetition_penalty: RepetitionPenalty = None,
    grammar: Grammar = None,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    bootstrap: Annotated[
        int | None, typer.Option(min=0, show_default="1000", help="Resamples for the intervals; 0: none.")
    ] = None,
    average: Average = None,
    device: Device = "auto",
    engine: Engine = None,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Measure how good a run's answers are, with intervals and by length; or compare two runs."""
    from seqloom.api import Model, load
    from seqloom.cli.console import Console
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parsed
    from seqloom.data.examples import Skipped
    from seqloom.errors import OptionError

    if against is not None and bootstrap is not None:
        raise OptionError("--bootstrap is of the intervals of one run: leave it out with --against")
    if average is not None and len(runs) == len(against or runs) == 1:
        raise OptionError("--average is for an ensemble, and none is named: name several runs")
    if bool(data) == (task is not None):
        raise OptionError("say what to evaluate on: --data FILE…, or --task TASK")
    if task is not None and (form or columns or header):
        raise OptionError("--format, --columns and --header are options of --data: leave them out with --task")
    constraints = constraints_given(prefix, forbid, require, no_repeat, repetition_penalty, grammar)
    of_search = search_options(context) | constraints

    def loaded(side: list[Path]) -> Model:
        return load(side, average=average if len(side) > 1 else None, device=device, engine=engine)

    model, other = loaded(runs), None if against is None else loaded(against)
    files = data_files(data, form, columns, header, fields=model.fields) if data else None
    metrics = [parsed(text) for text in metric] if metric else None
    options: dict[str, Any] = {"metrics": metrics, "search": None if search is None else parsed(search), **of_search}
    options["task"] = None if task is None else parsed(task)
    skipped = Skipped()
    examples = None if files is None else list(files.read(skipped=skipped))
    if skipped:
        print(f"seqloom: {skipped.total():,} pairs are left out: they have an empty side", file=sys.stderr)
    result: Any
    if other is not None:
        result = replace(model.compare(other, examples, **options), names=(called(runs), called(against or [])))
    else:
        result = model.evaluate(examples, bootstrap=1000 if bootstrap is None else bootstrap, **options)
    if as_json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        Console().print(result)

"""``seqloom evaluate``."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import (
    Columns,
    DataFormat,
    Device,
    Engine,
    EnsembleMode,
    Forbid,
    Grammar,
    Header,
    Imports,
    NoRepeat,
    OptionalDataFiles,
    Prefix,
    RepetitionPenalty,
    Require,
    Runs,
    Search,
    TaskName,
    constraints_given,
    data_files,
)


def display_name(runs: list[Path]) -> str:
    """The name of a run or an ensemble in a comparison."""
    return " + ".join(map(str, runs))


def evaluate(
    context: typer.Context,
    runs: Runs,
    data: OptionalDataFiles = None,
    task: TaskName = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Run to compare with, by a paired significance test. Repeatable, for an ensemble."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Metric: bleu, '{name: bleu, lowercase: true}', … (seqloom parts metric). Repeatable. The metric of "
            "MBR decoding is an option of --search '{name: mbr, metric: …}'."
        ),
    ] = None,
    search: Search = None,
    prefix: Prefix = None,
    forbid: Forbid = None,
    require: Require = None,
    no_repeat_ngram_size: NoRepeat = None,
    repetition_penalty: RepetitionPenalty = None,
    grammar: Grammar = None,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            min=0, show_default="1000", help="Bootstrap resamples for confidence intervals; 0: no intervals."
        ),
    ] = None,
    ensemble_mode: EnsembleMode = None,
    device: Device = "auto",
    engine: Engine = None,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Evaluate a run with confidence intervals and by source length, or compare two runs."""
    from seqloom.api import Model, load
    from seqloom.cli.console import Console
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parse_yaml
    from seqloom.data.examples import Skipped
    from seqloom.errors import ConfigError

    if against is not None and bootstrap is not None:
        raise ConfigError("--bootstrap sets the confidence intervals of a single run: remove it, or remove --against")
    if ensemble_mode is not None and len(runs) == len(against or runs) == 1:
        raise ConfigError("--ensemble-mode needs an ensemble: give several runs, or remove --ensemble-mode")
    if bool(data) == (task is not None):
        raise ConfigError("give the test data: either --data FILE… or --task TASK")
    if task is not None and (form or columns or header):
        raise ConfigError("--format, --columns and --header describe --data: remove them with --task")
    constraints = constraints_given(prefix, forbid, require, no_repeat_ngram_size, repetition_penalty, grammar)
    search_settings = search_options(context) | constraints

    def load_side(side: list[Path]) -> Model:
        return load(side, ensemble_mode=ensemble_mode if len(side) > 1 else None, device=device, engine=engine)

    model, other = load_side(runs), None if against is None else load_side(against)
    files = data_files(data, form, columns, header, fields=model.fields) if data else None
    metrics = [parse_yaml(text) for text in metric] if metric else None
    options: dict[str, Any] = {
        "metrics": metrics,
        "search": None if search is None else parse_yaml(search),
        **search_settings,
    }
    options["task"] = None if task is None else parse_yaml(task)
    skipped = Skipped()
    examples = None if files is None else list(files.read(skipped=skipped))
    if skipped:
        print(f"seqloom: {skipped.total():,} pairs with an empty side were skipped", file=sys.stderr)
    result: Any
    if other is not None:
        result = replace(
            model.compare(other, examples, **options), names=(display_name(runs), display_name(against or []))
        )
    else:
        result = model.evaluate(examples, bootstrap=1000 if bootstrap is None else bootstrap, **options)
    if as_json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        Console().print(result)

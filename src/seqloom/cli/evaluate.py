"""``seqloom evaluate``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import (
    Average,
    Code,
    Columns,
    DataFiles,
    Device,
    Engine,
    Header,
    Runs,
    Search,
    parsed_columns,
)


def evaluate(
    context: typer.Context,
    runs: Runs,
    data: DataFiles,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Another run, to be compared with by a paired test; repeated: an ensemble."),
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="bleu, '{name: bleu, lowercase: true}', …")] = None,
    search: Search = None,
    columns: Columns = None,
    header: Header = False,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for the intervals; 0: none.")] = 1000,
    average: Average = None,
    device: Device = "auto",
    engine: Engine = None,
    code: Code = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Measure how good a run's answers are, with intervals and by length; or compare two runs."""
    from rich.console import Console

    from seqloom.api import load
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parsed
    from seqloom.data.readers import Files
    from seqloom.registry import import_file

    if code is not None:
        import_file(code)
    files = Files.of(data, columns=parsed_columns(columns), header=header)
    of_search = search_options(context)
    model = load(runs, average=average, device_name=device, engine=engine)
    metrics = [parsed(text) for text in metric] if metric else None
    options: dict[str, Any] = {"metrics": metrics, "search": None if search is None else parsed(search), **of_search}
    if against is not None:
        result: Any = model.compare(
            load(against, average=average, device_name=device, engine=engine), files, **options
        )
    else:
        result = model.evaluate(files, bootstrap=bootstrap, **options)
    if as_json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        Console().print(result)

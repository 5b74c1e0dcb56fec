"""``seqloom evaluate``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Code, DataFiles, Device, Run, Search


def evaluate(
    run: Run,
    data: DataFiles,
    against: Annotated[Path | None, typer.Option(help="Another run, to be compared with by a paired test.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="bleu, '{name: bleu, lowercase: true}', …")] = None,
    search: Search = None,
    columns: Annotated[str | None, typer.Option(help="Columns of source and target: 0,1 or source,target.")] = None,
    header: Annotated[bool, typer.Option(help="Whether a TSV's first line names its columns.")] = False,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for the intervals; 0: none.")] = 1000,
    device: Device = "auto",
    code: Code = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Measure how good a run's answers are, with intervals and by length; or compare two runs."""
    from rich.console import Console

    from seqloom.api import load
    from seqloom.cli.values import parsed
    from seqloom.data.readers import Files

    picked = (
        None if columns is None else tuple(int(c) if c.strip().isdigit() else c.strip() for c in columns.split(","))
    )
    files = Files.of(data, columns=picked, header=header)
    model = load(run, device_name=device)
    metrics = [parsed(text) for text in metric] if metric else None
    options: dict[str, Any] = {"metrics": metrics, "search": None if search is None else parsed(search)}
    if against is not None:
        result: Any = model.compare(load(against, device_name=device), files, **options)
    else:
        result = model.evaluate(files, bootstrap=bootstrap, **options)
    if as_json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        Console().print(result)

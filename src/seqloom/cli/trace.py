"""``seqloom trace``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Device, Imports, Runs, Search


def trace(
    context: typer.Context,
    runs: Runs,
    text: Annotated[str, typer.Option(help="Source to trace.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="Format of --text: lines (plain text), or jsonl with source, prefix, require and inputs."
        ),
    ] = "lines",
    out: Annotated[Path | None, typer.Option(help="Output file; default: standard output.")] = None,
    search: Search = None,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Record how a model processes one source: activations, attention weights and beam history, as JSON."""
    from seqloom.api import load
    from seqloom.cli.requests import parse_request
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parse_yaml

    request = parse_request(text, form, "--text")
    options = search_options(context) | request.constraints
    spec = None if search is None else parse_yaml(search)
    trace = load(runs, device=device).trace(request.example, search=spec, **options)
    if out is None:
        print(json.dumps(trace.to_json(), ensure_ascii=False))
    else:
        trace.save(out)
        print(out)

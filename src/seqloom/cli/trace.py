"""``seqloom trace``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Device, Imports, Runs, Search


def trace(
    context: typer.Context,
    runs: Runs,
    text: Annotated[str, typer.Option(help="The source to trace.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="lines: the text is the source; jsonl: {source, prefix, require, further inputs}."
        ),
    ] = "lines",
    out: Annotated[Path | None, typer.Option(help="The file to write; by default, standard output.")] = None,
    search: Search = None,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Record one source through a model: activations, attention and the history of the beam, as JSON."""
    from seqloom.api import load
    from seqloom.cli.requests import one_request
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parsed

    asked = one_request(text, form, "--text")
    options = search_options(context) | asked.constraints
    chosen = None if search is None else parsed(search)
    found = load(runs, device=device).trace(asked.example, search=chosen, **options)
    if out is None:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        found.save(out)
        print(out)

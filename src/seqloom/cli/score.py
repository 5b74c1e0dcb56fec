"""``seqloom score``."""

import json
import sys
from itertools import islice
from typing import Annotated

import typer

from seqloom.cli.options import (
    Average,
    Columns,
    DataFiles,
    DataFormat,
    Device,
    Engine,
    Header,
    Imports,
    Runs,
    data_files,
)

TOGETHER = 512
"""How many pairs are scored at a time."""


def score(
    runs: Runs,
    data: DataFiles,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    average: Average = None,
    device: Device = "auto",
    engine: Engine = None,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="By token, one JSON object for each pair.")] = False,
) -> None:
    """Print the log-probability of every target given its source, a line for a pair, END included."""
    from seqloom.api import load

    model = load(runs, average=average, device=device, engine=engine)
    examples = data_files(data, form, columns, header, fields=model.fields).read(empty="refuse")
    while group := list(islice(examples, TOGETHER)):
        for example, found in zip(group, model.score(group, [e["target"] for e in group]), strict=True):
            facts = {**{name: example[name] for name in model.fields}, **found.to_json()}
            sys.stdout.write((json.dumps(facts, ensure_ascii=False) if as_json else f"{found.log_prob:.4f}") + "\n")
        sys.stdout.flush()

"""``seqloom score``."""

import json
import sys
from itertools import islice
from typing import Annotated

import typer

from seqloom.cli.options import (
    Columns,
    DataFiles,
    DataFormat,
    Device,
    Engine,
    EnsembleMode,
    Header,
    Imports,
    Runs,
    data_files,
)

BATCH_SIZE = 512
"""Number of pairs scored at a time."""


def score(
    runs: Runs,
    data: DataFiles,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    ensemble_mode: EnsembleMode = None,
    device: Device = "auto",
    engine: Engine = None,
    imports: Imports = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per pair, with a score for every token.")
    ] = False,
) -> None:
    """Print the log-probability of every target given its source, EOS included, one line per pair."""
    from seqloom.api import load

    model = load(runs, ensemble_mode=ensemble_mode, device=device, engine=engine)
    examples = data_files(data, form, columns, header, fields=model.fields).read(on_empty="error")
    while batch := list(islice(examples, BATCH_SIZE)):
        for example, score in zip(batch, model.score(batch, [e["target"] for e in batch]), strict=True):
            record = {**{name: example[name] for name in model.fields}, **score.to_json()}
            sys.stdout.write((json.dumps(record, ensure_ascii=False) if as_json else f"{score.log_prob:.4f}") + "\n")
        sys.stdout.flush()

"""``seqloom train``."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import (
    Assignments,
    Columns,
    DataFormat,
    DevFiles,
    Header,
    Imports,
    Preset,
    TaskName,
    TrainFiles,
    data_given,
)

INTERRUPTED = 130
"""The exit code of what was stopped by Ctrl-C, as shells have it: what was to come next should not."""


def train(
    config: Annotated[Path | None, typer.Argument(help="A configuration in YAML; seqloom config prints one.")] = None,
    train: TrainFiles = None,
    dev: DevFiles = None,
    task: TaskName = None,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    out: Annotated[Path | None, typer.Option(help="The folder that the run will be.")] = None,
    preset: Preset = None,
    assign: Assignments = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run.")] = None,
    imports: Imports = None,
) -> None:
    """Train a model."""
    from seqloom.cli.values import parsed
    from seqloom.config import make_config, read_config, settings
    from seqloom.errors import OptionError
    from seqloom.merge import merge
    from seqloom.train.display import display_for
    from seqloom.train.start import resume as go_on
    from seqloom.train.start import train as begin

    changes = settings(assign or [])
    display = display_for()
    try:
        if resume is not None:
            if config or train or dev or task or form or columns or header or out or preset:
                raise OptionError(
                    "--resume goes on with a run as it is: only --set train.updates=… and the like go with it"
                )
            folder = go_on(resume, changes, display=display)
        else:
            given: dict[str, Any] = {"data": data_given(train, dev, form, columns, header)}
            if task is not None:
                given["data"]["task"] = parsed(task)
            if preset is not None:
                given["model"] = {"preset": preset}
            layers = [read_config(config)] if config is not None else []
            if out is None:
                raise OptionError("say where the run is to be: --out runs/NAME")
            made = make_config(*layers, merge(given, changes))
            folder = begin(made, out, display=display, command=shlex.join(["seqloom", *sys.argv[1:]]))
    finally:
        display.close()
    print(folder.path)
    if not folder.finished:
        print(f"seqloom: {folder.to_go_on}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)

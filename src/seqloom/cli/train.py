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
"""Exit code after Ctrl-C, as in shells, so that a script stops too."""


def train(
    config: Annotated[Path | None, typer.Argument(help="Configuration in YAML; seqloom config prints one.")] = None,
    train: TrainFiles = None,
    dev: DevFiles = None,
    task: TaskName = None,
    form: DataFormat = None,
    columns: Columns = None,
    header: Header = False,
    out: Annotated[Path | None, typer.Option(help="Output directory of the run.")] = None,
    preset: Preset = None,
    assign: Assignments = None,
    resume: Annotated[Path | None, typer.Option(help="Resume this run; combine with --set train.… only.")] = None,
    imports: Imports = None,
) -> None:
    """Train a model on a parallel corpus or a generated task, or resume a run."""
    from seqloom.cli.values import parse_yaml
    from seqloom.config import make_config, parse_settings, read_config
    from seqloom.errors import ConfigError
    from seqloom.merge import merge
    from seqloom.train.display import display_for
    from seqloom.train.run import resume as resume_run
    from seqloom.train.run import train as start_run

    changes = parse_settings(assign or [])
    display = display_for()
    try:
        if resume is not None:
            if config or train or dev or task or form or columns or header or out or preset:
                raise ConfigError(
                    "--resume continues a run with its own configuration: give only --set options with it, such as "
                    "--set train.updates=…"
                )
            folder = resume_run(resume, changes, display=display)
        else:
            given: dict[str, Any] = {"data": data_given(train, dev, form, columns, header)}
            if task is not None:
                given["data"]["task"] = parse_yaml(task)
            if preset is not None:
                given["model"] = {"preset": preset}
            layers = [read_config(config)] if config is not None else []
            for layer in layers:
                layer.pop("format", None)  # the config.yaml of a run can be trained again
            if out is None:
                raise ConfigError("give an output directory: --out runs/NAME")
            resolved = make_config(*layers, merge(given, changes))
            folder = start_run(resolved, out, display=display, command=shlex.join(["seqloom", *sys.argv[1:]]))
    finally:
        display.close()
    print(folder.path)
    if not folder.finished:
        print(f"seqloom: {folder.resume_hint}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)

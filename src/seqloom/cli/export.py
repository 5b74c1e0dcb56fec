"""``seqloom export``."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Imports


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    to: Annotated[
        str, typer.Option(help="onnx, or for Transformers ctranslate2; with -int8 behind it: weights of 8 bits.")
    ] = "onnx",
    imports: Imports = None,
) -> None:
    """Write a run's model in another format, into the run's folder; predict and evaluate use it with --engine."""
    from seqloom.api import load
    from seqloom.export import export_model

    print(export_model(load(run, device="cpu").network, run, to))

"""``seqloom export``."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Imports


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run.")],
    to: Annotated[
        str,
        typer.Option(
            help="Engine: onnx, ctranslate2 (Transformers only), onnx-int8 or ctranslate2-int8 (quantized)."
        ),
    ] = "onnx",
    imports: Imports = None,
) -> None:
    """Export a run's model to ONNX or CTranslate2, for inference with --engine.

    The exported model is stored inside the run's directory.
    """
    from seqloom.api import load
    from seqloom.export import export_model

    print(export_model(load(run, device="cpu").network, run, to))

"""Models in other formats, and the engines that run them: ``seqloom export``, and ``engine=`` of ``seqloom.load``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.errors import OptionError, unknown

if TYPE_CHECKING:
    from seqloom.export.onnx import OnnxModel

__all__ = ["ENGINES", "export_model", "load_engine"]

ENGINES = ("onnx", "onnx-int8")
"""Each is also the name of the folder, inside a run's, that the exported model is in."""


def export_model(network: Any, run: Path, engine: str) -> Path:
    """Write a run's network as what an engine runs, and return the folder."""
    from seqloom.export import onnx

    _check(engine)
    folder = run / "onnx"
    onnx.export(network, folder)
    if engine == "onnx":
        return folder
    return onnx.quantise(folder, run / engine)


def load_engine(run: Path, engine: str) -> "OnnxModel":
    """What ``export_model`` wrote, ready to be searched."""
    from seqloom.export.onnx import OnnxModel

    _check(engine)
    if not (run / engine / "step.onnx").exists():
        raise OptionError(f"{run} has not been exported for engine {engine!r}: seqloom export {run} --to {engine}")
    return OnnxModel(run / engine)


def _check(engine: str) -> None:
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)

"""Models in other formats, and the engines that run them: ``seqloom export``, and ``engine=`` of ``seqloom.load``."""

from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from seqloom.errors import OptionError, unknown
from seqloom.files import new_folder

if TYPE_CHECKING:
    from seqloom.export.ctranslate2 import CTranslate2Model
    from seqloom.export.onnx import OnnxModel

__all__ = ["ENGINES", "export_model", "load_engine"]

ENGINES = ("onnx", "onnx-int8", "ctranslate2", "ctranslate2-int8")
"""Each is also the name of the folder, inside a run's, that the exported model is in."""
MADE_FROM = "made-from.sha256"
"""In such a folder: which weights it was made from."""


def export_model(network: Any, run: Path, engine: str) -> Path:
    """Write a run's network as what an engine runs, whole or not at all, and return the folder."""
    from seqloom.export import ctranslate2, onnx

    _check(engine)
    made_from = _weights(run)
    with new_folder(run / engine) as folder:
        if engine == "onnx":
            onnx.export(network, folder)
        elif engine == "onnx-int8":
            with TemporaryDirectory() as full:
                onnx.export(network, Path(full))
                onnx.quantise(Path(full), folder)
        else:
            ctranslate2.export(network, folder, int8=engine == "ctranslate2-int8")
        (folder / MADE_FROM).write_text(made_from, encoding="utf-8")
    return run / engine


def load_engine(run: Path, engine: str) -> "OnnxModel | CTranslate2Model":
    """What ``export_model`` wrote, ready to be searched."""
    from seqloom.export.common import LIMITS
    from seqloom.export.ctranslate2 import CTranslate2Model
    from seqloom.export.onnx import OnnxModel

    _check(engine)
    if not (run / engine / LIMITS).exists():
        raise OptionError(f"{run} has not been exported for engine {engine!r}: seqloom export {run} --to {engine}")
    made_from = run / engine / MADE_FROM
    if not made_from.exists() or made_from.read_text(encoding="utf-8") != _weights(run):
        raise OptionError(
            f"{run} has learned since it was exported: export it again: seqloom export {run} --to {engine}"
        )
    return OnnxModel(run / engine) if engine.startswith("onnx") else CTranslate2Model(run / engine)


def _weights(run: Path) -> str:
    """What tells a run's weights from others."""
    return sha256((run / "model.safetensors").read_bytes()).hexdigest()


def _check(engine: str) -> None:
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)

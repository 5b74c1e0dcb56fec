"""Export to other formats, and the inference engines: ``seqloom export`` and ``seqloom.load(…, engine=…)``."""

import shlex
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from seqloom.errors import ConfigError, unknown
from seqloom.files import new_folder

if TYPE_CHECKING:
    from seqloom.export.ctranslate2 import CTranslate2Model
    from seqloom.export.onnx import OnnxModel

__all__ = ["ENGINES", "export_model", "load_engine"]

ENGINES = ("onnx", "onnx-int8", "ctranslate2", "ctranslate2-int8")
"""The engines. An exported model is stored in a folder of this name inside the run's folder."""
WEIGHTS_HASH = "weights.sha256"
"""File of an export with the hash of the weights that were exported."""


def export_model(network: Any, run: Path, engine: str) -> Path:
    """Export a run's network for an engine, atomically, and return the folder."""
    from seqloom.export import ctranslate2, onnx

    _check(engine)
    weights_hash = _hash_weights(run)
    with new_folder(run / engine) as folder:
        if engine == "onnx":
            onnx.export(network, folder)
        elif engine == "onnx-int8":
            with TemporaryDirectory() as full:
                onnx.export(network, Path(full))
                onnx.quantize(Path(full), folder)
        else:
            ctranslate2.export(network, folder, int8=engine == "ctranslate2-int8")
        (folder / WEIGHTS_HASH).write_text(weights_hash, encoding="utf-8")
    return run / engine


def load_engine(run: Path, engine: str) -> "OnnxModel | CTranslate2Model":
    """The model that ``export_model`` wrote, ready for inference."""
    from seqloom.export.common import LIMITS
    from seqloom.export.ctranslate2 import CTranslate2Model
    from seqloom.export.onnx import OnnxModel

    _check(engine)
    folder = run / engine
    command = shlex.join(["seqloom", "export", str(run), "--to", engine])
    if not (folder / LIMITS).exists():
        raise ConfigError(f"{run} has not been exported for engine {engine!r}: export it: {command}")
    if not (folder / WEIGHTS_HASH).exists():
        raise ConfigError(f"{folder} was exported by an earlier version of seqloom: export the run again: {command}")
    if (folder / WEIGHTS_HASH).read_text(encoding="utf-8") != _hash_weights(run):
        raise ConfigError(f"the weights of {run} have changed since it was exported: export it again: {command}")
    return OnnxModel(folder) if engine.startswith("onnx") else CTranslate2Model(folder)


def _hash_weights(run: Path) -> str:
    return sha256((run / "model.safetensors").read_bytes()).hexdigest()


def _check(engine: str) -> None:
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)

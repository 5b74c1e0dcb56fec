"""seqloom: a sequence-to-sequence workbench to train, evaluate, inspect and deploy encoder–decoder models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqloom.api import Model, fit, load
    from seqloom.batch import Batch
    from seqloom.errors import SeqloomError
    from seqloom.models.build import build_model
    from seqloom.models.encoder_decoder import EncoderDecoder
    from seqloom.models.language_model import LanguageModel
    from seqloom.nn.attention import Attention
    from seqloom.nn.multihead import MultiHeadAttention
    from seqloom.nn.recurrent import StackedRNN
    from seqloom.presets import preset_names
    from seqloom.registry import parts, register
    from seqloom.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "Batch",
    "EncoderDecoder",
    "LanguageModel",
    "Model",
    "MultiHeadAttention",
    "SeqloomError",
    "StackedRNN",
    "Trace",
    "build_model",
    "fit",
    "load",
    "parts",
    "preset_names",
    "register",
]

# Names are imported on first access, so that `seqloom --help` does not import torch.
_MODULES = {
    "Attention": "seqloom.nn.attention",
    "Batch": "seqloom.batch",
    "EncoderDecoder": "seqloom.models.encoder_decoder",
    "LanguageModel": "seqloom.models.language_model",
    "Model": "seqloom.api",
    "MultiHeadAttention": "seqloom.nn.multihead",
    "StackedRNN": "seqloom.nn.recurrent",
    "SeqloomError": "seqloom.errors",
    "Trace": "seqloom.trace",
    "build_model": "seqloom.models.build",
    "fit": "seqloom.api",
    "load": "seqloom.api",
    "parts": "seqloom.registry",
    "preset_names": "seqloom.presets",
    "register": "seqloom.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'seqloom' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""What all exports share: imports of optional packages, and the file with the length limits."""

from importlib import import_module
from types import ModuleType

from seqloom.errors import ConfigError

LIMITS = "limits.json"
"""File of an export with the maximum lengths of source and target in tokens; null: unlimited."""


def import_required(*names: str) -> ModuleType:
    """Import optional packages and return the last one; raise ``ConfigError`` if one is not installed."""
    try:
        return [import_module(name) for name in names][-1]
    except ImportError as error:
        raise ConfigError(f"this engine needs the package {error.name}: pip install 'seqloom[export]'") from None

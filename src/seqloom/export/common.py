"""What exported models have in common: packages that not everyone has installed, and a file of limits."""

from importlib import import_module
from types import ModuleType

from seqloom.errors import OptionError

LIMITS = "limits.json"
"""Beside a model: how many tokens a source and an answer can have; null: any number."""


def needed(*names: str) -> ModuleType:
    """The last of some packages, all of which must be there."""
    try:
        return [import_module(name) for name in names][-1]
    except ImportError as error:
        raise OptionError(f"this engine needs the package {error.name}: pip install 'seqloom[export]'") from None

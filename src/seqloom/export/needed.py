"""Packages that an engine needs, and that not everyone has installed."""

from importlib import import_module
from types import ModuleType

from seqloom.errors import OptionError


def needed(*names: str) -> ModuleType:
    """The last of some packages, all of which must be there."""
    try:
        return [import_module(name) for name in names][-1]
    except ImportError as error:
        raise OptionError(f"this engine needs the package {error.name}: pip install 'seqloom[export]'") from None

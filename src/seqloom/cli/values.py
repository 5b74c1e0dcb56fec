"""Values on the command line."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from seqloom.errors import OptionError


def parsed(text: str) -> Any:
    """A part as a name, or as YAML with options: ``beam`` or ``{name: beam, width: 10}``."""
    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        raise OptionError(f"{text!r} is neither a name nor YAML like '{{name: beam, width: 10}}'") from None

"""Values of command-line options."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from seqloom.errors import ConfigError


def parse_yaml(text: str) -> Any:
    """The value of an option as YAML, such as ``beam`` or ``{name: beam, beam_size: 10}``."""
    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        raise ConfigError(
            f"{text!r} is invalid: give a name, or YAML such as '{{name: beam, beam_size: 10}}'"
        ) from None

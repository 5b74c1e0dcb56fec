"""Complete descriptions of models, with all defaults filled in: saved with a run, printed by ``seqloom config``."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from seqloom.errors import unknown
from seqloom.models.build import DEFAULT, default_options, with_defaults
from seqloom.models.decoders.wiring import ATTENDING
from seqloom.nn.attention import Attention
from seqloom.nn.outputs import Output
from seqloom.registry import get_class, options, parse_spec, part_options, validate_options


def complete(description: Mapping[str, Any], *, hidden_size: int, dropout: float | None) -> dict[str, Any]:
    """The description with every option of every part filled in; unknown names and invalid values raise an error."""
    kind = str(description.get("type", DEFAULT))
    model = get_class("model", kind)
    known, kinds = options(model), part_options(model)
    completed: dict[str, Any] = {"type": kind}
    for key in description:
        if key != "type" and key not in known:
            raise unknown(f"option of model {kind!r}:", key, [*known, "preset", "type", "hidden_size", "dropout"])
    defaults = default_options(hidden_size, dropout)
    for option, parameter in known.items():
        value = description.get(option, parameter.default)
        if option in kinds:
            value = complete_part(kinds[option], with_defaults(kinds[option], value, defaults))
        completed[option] = value
    return completed


def part_classes(description: Mapping[str, Any]) -> dict[str, type]:
    """The classes of a described model's parts, by option."""
    model = get_class("model", str(description.get("type", DEFAULT)))
    known, classes = options(model), {}
    for option, kind in part_options(model).items():
        name, _ = parse_spec(kind, description.get(option, known[option].default))
        classes[option] = get_class(kind, name)
    return classes


def fields_read(description: Mapping[str, Any]) -> dict[str, str]:
    """The fields besides source and target that a described model reads, each with the option that requires it."""
    read = {name: f"inputs.{name}" for name in description.get("inputs") or {}}
    for option, part in part_classes(description).items():
        if issubclass(part, Output):
            read |= dict.fromkeys(part.reads, option)
    return read


def complete_part(kind: str, spec: Any) -> dict[str, Any]:
    """A part's specification with all its options, and with those of the parts nested in them."""
    name, given = parse_spec(kind, spec)
    part = get_class(kind, name)
    return {"name": name, **complete_options(f"{kind} {name!r}", part, given)}


def complete_options(where: str, part: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a class: the given values, and defaults for the others."""
    validate_options(where, part, given)
    completed: dict[str, Any] = {}
    known, kinds = options(part), part_options(part)
    context = given.get("context", known["context"].default) if "context" in known else None
    for option, parameter in known.items():
        value = deepcopy(given.get(option, parameter.default))
        if option in kinds and value is not None:
            value = complete_part(kinds[option], value)
        elif option == "attention" and context in ATTENDING:
            value = complete_options("attention", Attention, value or {})
        completed[option] = list(value) if isinstance(value, tuple) else value
    return completed

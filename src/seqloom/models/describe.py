"""A description of a model with nothing left to defaults: what a run keeps, and what ``seqloom config`` prints."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from seqloom.errors import unknown
from seqloom.models.build import DEFAULT, adjusted
from seqloom.models.decoders.wiring import ATTENDING
from seqloom.nn.attention import Attention
from seqloom.nn.outputs import Output
from seqloom.registry import check, find, options, part_options, split


def complete(description: Mapping[str, Any], *, size: int, dropout: float | None) -> dict[str, Any]:
    """The description with every option of every part written out; unknown names and wrong values are refused."""
    kind = str(description.get("model", DEFAULT))
    model = find("model", kind)
    known, kinds = options(model), part_options(model)
    completed: dict[str, Any] = {"model": kind}
    for key in description:
        if key != "model" and key not in known:
            raise unknown(f"option of model {kind!r}:", key, [*known, "preset", "size", "dropout"])
    usual = {"size": size} if dropout is None else {"size": size, "dropout": dropout}
    for option, parameter in known.items():
        value = description.get(option, parameter.default)
        if option in kinds:
            value = complete_part(kinds[option], adjusted(kinds[option], value, usual))
        completed[option] = value
    return completed


def part_classes(description: Mapping[str, Any]) -> dict[str, type]:
    """The classes of the parts that a described model is made of, by option."""
    model = find("model", str(description.get("model", DEFAULT)))
    known, classes = options(model), {}
    for option, kind in part_options(model).items():
        name, _ = split(kind, description.get(option, known[option].default))
        classes[option] = find(kind, name)
    return classes


def fields_read(description: Mapping[str, Any]) -> dict[str, str]:
    """The fields beside source and target that a described model reads, each with the option that has it read."""
    read = {name: f"inputs.{name}" for name in description.get("inputs") or {}}
    for option, part in part_classes(description).items():
        if issubclass(part, Output):
            read |= dict.fromkeys(part.reads, option)
    return read


def complete_part(kind: str, spec: Any) -> dict[str, Any]:
    """A part with all its options, and the parts in them with theirs."""
    name, given = split(kind, spec)
    part = find(kind, name)
    return {"name": name, **complete_options(f"{kind} {name!r}", part, given)}


def complete_options(where: str, part: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a class, as given or by default."""
    check(where, part, given)
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

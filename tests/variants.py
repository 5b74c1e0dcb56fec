"""The options of registered parts, read from their signatures: no test repeats them."""

from typing import Any, Literal, get_args, get_origin, get_type_hints

from seqloom.registry import find, options, parts


def variants(kind: str, name: str) -> list[dict[str, Any]]:
    """A part's options as they are, and with each choice and each switch turned once."""
    cls = find(kind, name)
    hints = get_type_hints(cls.__init__)
    found: list[dict[str, Any]] = [{}]
    for option, parameter in options(cls).items():
        choices = get_args(hints[option]) if get_origin(hints[option]) is Literal else ()
        choices = (False, True) if hints[option] is bool else choices
        found += [{option: value} for value in choices if value != parameter.default]
    return found


def every(kind: str) -> list[dict[str, Any]]:
    """The specification of every registered part in all its variants."""
    return [{"name": name, **chosen} for name in parts(kind) for chosen in variants(kind, name)]


def label(spec: Any) -> str | None:
    """A readable test id for a specification: ``gru-reset=after``."""
    if not isinstance(spec, dict):
        return None
    return "-".join([str(spec["name"]), *(f"{option}={v}" for option, v in spec.items() if option != "name")])

"""Option values of registered parts, read from their signatures, so that tests don't repeat them."""

from typing import Any, Literal, get_args, get_origin, get_type_hints

from seqloom.registry import get_class, options, parts


def variants(kind: str, name: str) -> list[dict[str, Any]]:
    """The default options of a part, and one variant for every other value of each literal or boolean option."""
    cls = get_class(kind, name)
    hints = get_type_hints(cls.__init__)
    result: list[dict[str, Any]] = [{}]
    for option, parameter in options(cls).items():
        choices = get_args(hints[option]) if get_origin(hints[option]) is Literal else ()
        choices = (False, True) if hints[option] is bool else choices
        result += [{option: value} for value in choices if value != parameter.default]
    return result


def every(kind: str) -> list[dict[str, Any]]:
    """Specs of all variants of every registered part of a kind."""
    return [{"name": name, **chosen} for name in parts(kind) for chosen in variants(kind, name)]


def label(spec: Any) -> str | None:
    """A readable test id for a spec, such as ``gru-reset_after=True``."""
    if not isinstance(spec, dict):
        return None
    return "-".join([str(spec["name"]), *(f"{option}={v}" for option, v in spec.items() if option != "name")])

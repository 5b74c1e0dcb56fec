"""Search options on the command line; ``--beam-size`` is the option ``beam_size`` in Python.

The options depend on the search, and listing them requires importing all searches, and torch with them. So a command
accepts any ``--name value`` that is not an option of the command, and validates it when it runs.
"""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from seqloom.errors import ConfigError, unknown

KEY = "seqloom.search"
EPILOG = (
    "Options of the search are also accepted, e.g. --search beam --beam-size 10; seqloom parts search lists them."
)


class SearchCommand(TyperCommand):
    """A command that also accepts the options of a search."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Separate the options of the search from those of the command."""
        own = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}
        remaining, ctx.meta[KEY] = split_search_args(args, own)
        rest: list[str] = super().parse_args(ctx, remaining)
        return rest


def split_search_args(arguments: Sequence[str], own: set[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without all ``--name value`` and ``--name=value`` that are not in ``own``, and these by name."""
    remaining: list[str] = []
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if word == "--":
            return [*remaining, word, *words], options
        if not word.startswith("--") or option in own:
            remaining.append(word)
            continue
        value = value if equals else next(words, "--")
        if value.startswith("--"):
            raise ConfigError(f"{option} needs a value: {option} VALUE or {option}=VALUE")
        options[option.removeprefix("--").replace("-", "_")] = value
    return remaining, options


def search_options(context: typer.Context) -> dict[str, Any]:
    """The search options of a command, with values parsed as YAML; raises if no search has an option of that name."""
    from seqloom.cli.values import parse_yaml
    from seqloom.predictor.constraints import Constraints
    from seqloom.registry import options, parts

    given: dict[str, str] = context.meta[KEY]
    known = {option for cls in (*parts("search").values(), Constraints) for option in options(cls)}
    own = [name for parameter in context.command.params for name in parameter.opts]
    for option in given:
        if option not in known:
            flags = [*own, *(f"--{name.replace('_', '-')}" for name in known)]
            raise unknown("option", f"--{option.replace('_', '-')}", flags)
    return {option: parse_yaml(text) for option, text in given.items()}

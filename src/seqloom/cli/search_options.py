"""Options of a search on the command line, by the names that they have in Python.

Which options there are depends on the search, and to know them all its classes would have to be imported, and torch
with them. So a command takes every ``--name value`` that is not its own, and they are checked when it runs.
"""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from seqloom.errors import OptionError, unknown

KEY = "seqloom.search"
EPILOG = "Any option of the search can be given too, e.g. --search beam --width 10: seqloom parts search lists them."


class SearchCommand(TyperCommand):
    """A command that takes the options of a search beside its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set aside what is not the command's own."""
        own = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}
        mine, ctx.meta[KEY] = set_apart(args, own)
        rest: list[str] = super().parse_args(ctx, mine)
        return rest


def set_apart(arguments: Sequence[str], own: set[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without those ``--name value`` or ``--name=value`` that are not ``own``, and these by name."""
    mine: list[str] = []
    others: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if word == "--":
            return [*mine, word, *words], others
        if not word.startswith("--") or option in own:
            mine.append(word)
            continue
        value = value if equals else next(words, "--")
        if value.startswith("--"):
            raise OptionError(f"{option} needs a value: {option} …, or {option}=…")
        others[option.removeprefix("--").replace("-", "_")] = value
    return mine, others


def search_options(context: typer.Context) -> dict[str, Any]:
    """The options that were set apart, their values read as YAML; names that no search has are refused."""
    from seqloom.cli.values import parsed
    from seqloom.predictor.constraints import Constraints
    from seqloom.registry import options, parts

    given: dict[str, str] = context.meta[KEY]
    known = {option for cls in (*parts("search").values(), Constraints) for option in options(cls)}
    own = [name for parameter in context.command.params for name in parameter.opts]
    for option in given:
        if option not in known:
            flags = [*own, *(f"--{name.replace('_', '-')}" for name in known)]
            raise unknown("option", f"--{option.replace('_', '-')}", flags)
    return {option: parsed(text) for option, text in given.items()}

"""A command that suggests an existing option for an unknown one, including option names of other toolkits."""

from typing import Any

from typer.core import TyperCommand

from seqloom.errors import unknown


class Command(TyperCommand):
    """A command that reports an unknown option with the closest existing one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise an error for the first unknown option; words after ``--`` are not options."""
        known = [name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)]
        for word in args[: args.index("--")] if "--" in args else args:
            option = word.partition("=")[0]
            if option.startswith("--") and option not in known:
                raise unknown("option", option, [name for name in known if name.startswith("--")])
        rest: list[str] = super().parse_args(ctx, args)
        return rest

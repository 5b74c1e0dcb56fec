"""The command line: one file per command, each thin over a function of the library."""

import sys

import typer

from seqloom.cli.parts import parts
from seqloom.errors import SeqloomError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The sequence-to-sequence workbench: train encoder–decoder models, look inside them, put them to work.",
)
app.callback()(lambda: None)
app.command()(parts)


def main() -> None:
    """Run the command line; what the person did wrong is said in one line, with exit code 2."""
    try:
        app()
    except SeqloomError as error:
        print(f"seqloom: {error}", file=sys.stderr)
        sys.exit(2)

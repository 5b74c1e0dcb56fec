"""The command line: one file per command, each thin over a function of the library."""

import os
import re
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from seqloom.cli.config import config
from seqloom.cli.demo import demo
from seqloom.cli.evaluate import evaluate
from seqloom.cli.export import export
from seqloom.cli.files import gathered
from seqloom.cli.parts import parts
from seqloom.cli.predict import predict
from seqloom.cli.prepare import prepare
from seqloom.cli.score import score
from seqloom.cli.search_options import EPILOG, SearchCommand
from seqloom.cli.tasks import tasks
from seqloom.cli.trace import trace
from seqloom.cli.train import train
from seqloom.errors import SeqloomError


class Commands(TyperGroup):
    """All commands; each ends well where whoever reads its output has had enough of it, as ``head`` has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--code``, the former name of ``--import``, as well."""
        renamed = [re.sub(r"^--code(?==|$)", "--import", word) for word in args]
        rest: list[str] = super().parse_args(ctx, renamed)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and write out all of its output."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left of the output
            raise typer.Exit from None
        return result


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The sequence-to-sequence workbench: train encoder–decoder models, look inside them, put them to work.",
)
app.callback()(lambda: None)
app.command()(demo)
app.command()(train)
app.command(cls=SearchCommand, epilog=EPILOG)(predict)
app.command("translate", cls=SearchCommand, hidden=True, help="Another name of predict.")(predict)
app.command(cls=SearchCommand, epilog=EPILOG)(evaluate)
app.command()(score)
app.command(cls=SearchCommand, epilog=EPILOG)(trace)
app.command()(prepare)
app.command()(export)
app.command()(config)
app.command()(parts)
app.command()(tasks)


def main() -> None:
    """Run the command line; what the person did wrong is said in one line, with exit code 2."""
    try:
        app(args=gathered(sys.argv[1:]))
    except SeqloomError as error:
        print(f"seqloom: {error}", file=sys.stderr)
        sys.exit(2)

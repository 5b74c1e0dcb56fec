"""The command line: one module per command, each a thin layer over a function of the library."""

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from seqloom.cli.command import Command
from seqloom.cli.config import config
from seqloom.cli.demo import demo
from seqloom.cli.evaluate import evaluate
from seqloom.cli.export import export
from seqloom.cli.files import expand_file_args
from seqloom.cli.parts import parts
from seqloom.cli.predict import predict
from seqloom.cli.prepare import prepare
from seqloom.cli.score import score
from seqloom.cli.search_options import EPILOG, SearchCommand
from seqloom.cli.tasks import tasks
from seqloom.cli.trace import trace
from seqloom.cli.train import train
from seqloom.errors import SeqloomError

PACKAGE = Path(__file__).parents[1]
PYTHON_FORMAT = warnings.formatwarning


class Commands(TyperGroup):
    """All commands; a closed output pipe (``seqloom parts | head``) is not an error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``--code``, the former name of ``--import``."""
        renamed = [re.sub(r"^--code(?==|$)", "--import", word) for word in args]
        rest: list[str] = super().parse_args(ctx, renamed)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command and flush its output."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest of the output
            raise typer.Exit from None
        return result


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A sequence-to-sequence workbench: train, evaluate, inspect and deploy encoder–decoder models.",
)
app.callback()(lambda: None)
app.command(cls=Command)(demo)
app.command(cls=Command)(train)
app.command(cls=SearchCommand, epilog=EPILOG)(predict)
app.command("translate", cls=SearchCommand, hidden=True, help="Alias of predict.")(predict)
app.command(cls=SearchCommand, epilog=EPILOG)(evaluate)
app.command(cls=Command)(score)
app.command(cls=SearchCommand, epilog=EPILOG)(trace)
app.command(cls=Command)(prepare)
app.command(cls=Command)(export)
app.command(cls=Command)(config)
app.command(cls=Command)(parts)
app.command(cls=Command)(tasks)


def format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A deprecation warning of seqloom on one line; any other warning in Python's format."""
    if issubclass(category, FutureWarning) and Path(filename).is_relative_to(PACKAGE):
        return f"seqloom: {message}\n"
    return PYTHON_FORMAT(message, category, filename, lineno, line)


def main() -> None:
    """Run the command line; an error of the user is printed on one line, with exit code 2."""
    warnings.formatwarning = format_warning
    try:
        app(args=expand_file_args(sys.argv[1:]))
    except SeqloomError as error:
        print(f"seqloom: {error}", file=sys.stderr)
        sys.exit(2)

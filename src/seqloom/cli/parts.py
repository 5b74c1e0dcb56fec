"""``seqloom parts``: all registered parts."""

import inspect
import json
from typing import Annotated, Any, get_type_hints

import typer

from seqloom.cli.options import Imports
from seqloom.errors import unknown
from seqloom.registry import KINDS, option_docs, options, summary
from seqloom.registry import parts as parts_of


def parts(
    kind: Annotated[
        str | None,
        typer.Argument(help="Kind of part, such as cell: list only this kind, with descriptions of all options."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with options and defaults.")] = False,
    imports: Imports = None,
) -> None:
    """List all parts (cells, attention functions, searches, metrics, …) by kind, with their options."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind of part", kind, KINDS)
    listed = {k: describe_parts(k) for k in KINDS if kind in (None, k)}
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        _print(listed, with_options=kind is not None)


def describe_parts(kind: str) -> dict[str, Any]:
    """All parts of a kind by name: summary, and options with type, default and description."""
    listed = {}
    for name, part in parts_of(kind).items():
        hints = get_type_hints(part.__init__)  # type: ignore[misc]
        listed[name] = {
            "summary": summary(part),
            "options": {
                option: {
                    "type": inspect.formatannotation(hints.get(option, Any)),
                    "default": None if parameter.default is inspect.Parameter.empty else parameter.default,
                    "description": option_docs(part).get(option, ""),
                }
                for option, parameter in options(part).items()
            },
        }
    return listed


def _print(listed: dict[str, dict[str, Any]], *, with_options: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from seqloom.cli.console import Console

    console = Console()
    for kind, kind_parts in listed.items():
        table = Table(box=None, padding=(0, 2, 0, 2), show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, part in kind_parts.items():
            table.add_row(f"  [bold]{escape(name)}[/]", escape(part["summary"]))
            if part["options"] and not with_options:
                defaults = ", ".join(f"{name}={option['default']!r}" for name, option in part["options"].items())
                table.add_row("", f"[dim]{escape(defaults)}[/]")
            for option, described in part["options"].items() if with_options else ():
                default = f"[cyan]{escape(option)}[/] = {escape(repr(described['default']))}"
                table.add_row("", f"{default}  [dim]{escape(described['description'].replace('``', '`'))}[/]")
        console.print(f"[bold cyan]{kind}[/] [dim]{escape(KINDS[kind].summary)}[/]")
        console.print(table)
        console.print()
    if not with_options:
        console.print("[dim]Options are shown with their defaults; seqloom parts KIND describes them.[/]")

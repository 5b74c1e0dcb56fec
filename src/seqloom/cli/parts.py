"""``seqloom parts``: every registered part."""

import inspect
import json
from typing import Annotated, Any, get_type_hints

import typer

from seqloom.cli.options import Imports
from seqloom.errors import unknown
from seqloom.registry import KINDS, explained, meaning, options
from seqloom.registry import parts as parts_of


def parts(
    kind: Annotated[str | None, typer.Argument(help="Only this kind of part, with its options explained.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, options and defaults included.")] = False,
    imports: Imports = None,
) -> None:
    """List every part by kind, with what it means and its options."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind of part", kind, KINDS)
    listed = {k: described(k) for k in KINDS if kind in (None, k)}
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        _print(listed, with_options=kind is not None)


def described(kind: str) -> dict[str, Any]:
    """Every part of a kind by name: its meaning, and its options with types, defaults and meanings."""
    listed = {}
    for name, part in parts_of(kind).items():
        hints = get_type_hints(part.__init__)  # type: ignore[misc]
        listed[name] = {
            "meaning": meaning(part),
            "options": {
                option: {
                    "type": inspect.formatannotation(hints.get(option, Any)),
                    "default": None if parameter.default is inspect.Parameter.empty else parameter.default,
                    "meaning": explained(part).get(option, ""),
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
            table.add_row(f"  [bold]{escape(name)}[/]", escape(part["meaning"]))
            if part["options"] and not with_options:
                defaults = ", ".join(f"{option}={facts['default']!r}" for option, facts in part["options"].items())
                table.add_row("", f"[dim]{escape(defaults)}[/]")
            for option, facts in part["options"].items() if with_options else ():
                default = f"[cyan]{escape(option)}[/] = {escape(repr(facts['default']))}"
                table.add_row("", f"{default}  [dim]{escape(facts['meaning'])}[/]")
        console.print(f"[bold cyan]{kind}[/] [dim]{escape(KINDS[kind].meaning)}[/]")
        console.print(table)
        console.print()
    if not with_options:
        console.print("[dim]Options are shown with their defaults; seqloom parts KIND explains them.[/]")

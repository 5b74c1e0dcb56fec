"""``seqloom tasks``: every registered task, with a sample."""

import json
from typing import Annotated, Any

import typer

from seqloom.cli.options import Imports

SHOWN = 3
"""How many pairs of each task are shown."""


def tasks(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, options and defaults included.")] = False,
    imports: Imports = None,
) -> None:
    """List every task with a sample of its pairs, its options and the command that trains on it."""
    listed = sampled()
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        _print(listed)


def sampled() -> dict[str, dict[str, Any]]:
    """Every task by name: its meaning, options, fields, metric, a few test pairs, and how to train on it."""
    from seqloom.cli.parts import described
    from seqloom.registry import build

    listed = {}
    for name, facts in described("task").items():
        task = build("task", name)
        listed[name] = {
            **facts,
            "fields": dict(task.fields),
            "metric": task.metric,
            "sample": [{"source": source, "target": target} for source, target in task.test[:SHOWN]],
            "command": f"seqloom train --task {name} --out runs/{name}",
        }
    return listed


def _print(listed: dict[str, dict[str, Any]]) -> None:
    from seqloom.cli.console import Console

    console = Console(highlight=False)

    def show(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, soft_wrap=True)

    for name, task in listed.items():
        console.print(f"[bold cyan]{name}[/]", end="  ")
        show(task["meaning"])
        for pair in task["sample"]:
            show(f"    {pair['source']}  →  {pair['target']}")
        show(f"    {task['command']}", "bold")
        console.print()
    show("seqloom parts task explains the options; set them by --task '{name: reverse, longest: 30}'.", "dim")

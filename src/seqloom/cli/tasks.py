"""``seqloom tasks``: all registered tasks, with samples."""

import json
from typing import Annotated, Any

import typer

from seqloom.cli.options import Imports

SAMPLE_SIZE = 3
"""Number of pairs shown per task."""


def tasks(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with options and defaults.")] = False,
    imports: Imports = None,
) -> None:
    """List all tasks, with sample pairs and the command to train on each."""
    listed = describe_tasks()
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        _print(listed)


def describe_tasks() -> dict[str, dict[str, Any]]:
    """All tasks by name: summary, options, fields, metric, a few test pairs, and the command to train on it."""
    from seqloom.cli.parts import describe_parts
    from seqloom.registry import build

    listed = {}
    for name, description in describe_parts("task").items():
        task = build("task", name)
        listed[name] = {
            **description,
            "fields": dict(task.fields),
            "metric": task.metric,
            "sample": [{"source": source, "target": target} for source, target in task.test[:SAMPLE_SIZE]],
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
        show(task["summary"])
        for pair in task["sample"]:
            show(f"    {pair['source']}  →  {pair['target']}")
        show(f"    {task['command']}", "bold")
        console.print()
    show("Options: seqloom parts task; set them with --task '{name: reverse, longest: 30}'.", "dim")

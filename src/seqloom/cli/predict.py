"""``seqloom predict``."""

import queue
import sys
import threading
from collections.abc import Iterator
from typing import Annotated

import typer

from seqloom.cli.options import Code, Device, Run, Search

TOGETHER = 512
"""How many lines are answered at a time at most, where so many are waiting."""


def predict(
    run: Run,
    input: Annotated[str, typer.Argument(help="One source a line; -: standard input.")] = "-",  # noqa: A002
    search: Search = None,
    device: Device = "auto",
    code: Code = None,
) -> None:
    """Answer every line of the input by a line of output, in order; blank lines stay blank."""
    from seqloom.api import load
    from seqloom.cli.values import parsed
    from seqloom.data.readers import read_sources
    from seqloom.registry import import_file

    if code is not None:
        import_file(code)
    model = load(run, device_name=device)
    chosen = None if search is None else parsed(search)
    for lines in as_they_come(read_sources(input)):
        for answer in model.predict(lines, search=chosen):
            sys.stdout.write(answer.replace("\n", " ") + "\n")
        sys.stdout.flush()


def as_they_come(lines: Iterator[str]) -> Iterator[list[str]]:
    """Lines in groups: all that are there by the time the last group is done, so nobody waits for a full batch."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(4 * TOGETHER)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again where the lines are used
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        group: list[str] = []
        item = waiting.get()
        while isinstance(item, str):
            group.append(item)
            if len(group) == TOGETHER:
                break
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                break
        if group:
            yield group
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return

"""What ``seqloom predict`` is asked: sources as they arrive, each with its own constraints if it has any."""

import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, Literal, get_args

from seqloom.data.examples import check_characters
from seqloom.data.lines import called, check_file, lines, plain_name
from seqloom.errors import InputError, unknown

Format = Literal["lines", "jsonl"]
TOGETHER = 512
"""How many are answered at a time at most, where so many are waiting."""
KEYS = ("source", "prefix", "require")


@dataclass(frozen=True)
class Request:
    """One source; prefix, require: its own constraints.

    more: whatever else its line of JSON holds, such as further inputs.

    place: where it stands, for errors.
    """

    source: Any
    prefix: str | None = None
    require: Sequence[str] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    @property
    def example(self) -> dict[str, Any]:
        """What the model is asked."""
        return {**self.more, "source": self.source}

    @property
    def constraints(self) -> dict[str, Any]:
        """Its own constraints, by name."""
        own = {"prefix": self.prefix, "require": self.require}
        return {name: value for name, value in own.items() if value is not None}


def read_requests(path: str, form: str | None) -> Iterator[Request]:
    """A request for every line of a file or of standard input, each as soon as it arrives, blank ones too.

    form: ``lines``: a line is a source; ``jsonl``: it is an object. By default from the file's name.
    """
    if form is None:
        form = "jsonl" if PurePath(plain_name(path)).suffix.lower() in (".jsonl", ".ndjson") else "lines"
    check_format(form)
    check_file(path)
    for number, line in lines(path):
        yield one_request(line, form, f"{called(path)}, line {number}")


def check_format(form: str) -> None:
    """Refuse what is no format of requests."""
    if form not in get_args(Format):
        raise unknown("format", form, get_args(Format))


def one_request(line: str, form: str, place: str) -> Request:
    """What a line asks for."""
    check_format(form)
    return Request(line, place=place) if form == "lines" else request(line, place)


def request(line: str, place: str) -> Request:
    """A line of JSON as a request; a blank one has a blank source."""
    if not line.strip():
        return Request("", place=place)
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{place}: not JSON: {error}; JSONL has one object a line") from None
    if not isinstance(record, dict) or not isinstance(record.get("source"), str | list):
        raise InputError(f'{place}: not a JSON object with a text as its source, like {{"source": "…"}}')
    more = {key: value for key, value in record.items() if key not in KEYS}
    for key in more:  # anything may stand beside a source, but hardly by a slip of the pen
        if get_close_matches(key, KEYS, n=1, cutoff=0.8):
            raise InputError(f"{place}: {unknown('key', key, KEYS)}")
    prefix, require = record.get("prefix"), record.get("require")
    if not isinstance(prefix, str | None):
        raise InputError(f"{place}: prefix is {prefix!r}, not text")
    if require is not None and not (isinstance(require, list) and all(isinstance(text, str) for text in require)):
        raise InputError(f'{place}: require is {require!r}, not a list of texts like ["one", "and another"]')
    for text in (record["source"], prefix or "", *(require or ())):
        if isinstance(text, str):
            check_characters(text, place)
    return Request(record["source"], prefix, require, more, place)


def as_they_come(requests: Iterator[Request]) -> Iterator[list[Request]]:
    """Requests in groups: all that are there by the time the last group is done, so nobody waits for a full batch."""
    waiting: queue.Queue[Request | BaseException | None] = queue.Queue(4 * TOGETHER)

    def read() -> None:
        try:
            for one in requests:
                waiting.put(one)
            waiting.put(None)
        except BaseException as error:  # raised again where the requests are used
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        group: list[Request] = []
        item = waiting.get()
        while isinstance(item, Request):
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

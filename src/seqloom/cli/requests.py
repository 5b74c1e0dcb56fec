"""Requests of ``seqloom predict``: sources, each with optional constraints, read as they arrive."""

import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, Literal, get_args

from seqloom.data.examples import check_surrogates
from seqloom.data.lines import check_file, display_name, lines, plain_name
from seqloom.errors import InputError, unknown

Format = Literal["lines", "jsonl"]
MAX_BATCH = 512
"""Maximum number of requests in a batch."""
KEYS = ("source", "prefix", "require")


@dataclass(frozen=True)
class Request:
    """One source with its constraints.

    prefix, require: constraints of this source; None uses those of the command line.
    extra: all other keys of its JSON object, such as additional inputs.
    location: file and line, for error messages.
    """

    source: Any
    prefix: str | None = None
    require: Sequence[str] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    location: str = ""

    @property
    def example(self) -> dict[str, Any]:
        """The input of the model."""
        return {**self.extra, "source": self.source}

    @property
    def constraints(self) -> dict[str, Any]:
        """The constraints that are not None, by name."""
        constraints = {"prefix": self.prefix, "require": self.require}
        return {name: value for name, value in constraints.items() if value is not None}


def read_requests(path: str, form: str | None) -> Iterator[Request]:
    """A request for every line of a file or of standard input, blank lines included, as soon as the line arrives.

    form: ``lines`` (one source per line) or ``jsonl`` (one JSON object per line); None uses the file name.
    """
    if form is None:
        form = "jsonl" if PurePath(plain_name(path)).suffix.lower() in (".jsonl", ".ndjson") else "lines"
    check_format(form)
    check_file(path)
    for number, line in lines(path):
        yield parse_request(line, form, f"{display_name(path)}, line {number}")


def check_format(form: str) -> None:
    """Raise if the format is unknown."""
    if form not in get_args(Format):
        raise unknown("format", form, get_args(Format))


def parse_request(line: str, form: str, location: str) -> Request:
    """The request in a line."""
    check_format(form)
    return Request(line, location=location) if form == "lines" else parse_json(line, location)


def parse_json(line: str, location: str) -> Request:
    """The request in a line of JSON; a blank line is a blank source."""
    if not line.strip():
        return Request("", location=location)
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{location}: invalid JSON: {error}; JSONL has one JSON object per line") from None
    if not isinstance(record, dict) or not isinstance(record.get("source"), str | list):
        raise InputError(f'{location}: the line must be a JSON object with a source, such as {{"source": "…"}}')
    extra = {key: value for key, value in record.items() if key not in KEYS}
    for key in extra:  # any extra key is allowed, unless it looks like a typo
        if get_close_matches(key, KEYS, n=1, cutoff=0.8):
            raise InputError(f"{location}: {unknown('key', key, KEYS)}")
    prefix, require = record.get("prefix"), record.get("require")
    if not isinstance(prefix, str | None):
        raise InputError(f"{location}: prefix is {prefix!r}, but it must be a string")
    if require is not None and not (isinstance(require, list) and all(isinstance(text, str) for text in require)):
        raise InputError(
            f'{location}: require is {require!r}, but it must be a list of strings, such as ["one", "another one"]'
        )
    for text in (record["source"], prefix or "", *(require or ())):
        if isinstance(text, str):
            check_surrogates(text, location)
    return Request(record["source"], prefix, require, extra, location)


def batches_as_available(requests: Iterator[Request]) -> Iterator[list[Request]]:
    """Batches of all requests that have arrived when the previous batch is done, without waiting for a full one."""
    waiting: queue.Queue[Request | BaseException | None] = queue.Queue(4 * MAX_BATCH)

    def read() -> None:
        try:
            for request in requests:
                waiting.put(request)
            waiting.put(None)
        except BaseException as error:  # raised again in the consumer's thread
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        batch: list[Request] = []
        item = waiting.get()
        while isinstance(item, Request):
            batch.append(item)
            if len(batch) == MAX_BATCH:
                break
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                break
        if batch:
            yield batch
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return

"""JSON, one object a line."""

import json
from collections.abc import Iterator

from seqloom.data.examples import Row
from seqloom.data.lines import lines
from seqloom.data.readers.base import Reader, apply, at
from seqloom.errors import InputError, unknown
from seqloom.registry import register


@register("reader", "jsonl")
class Jsonl(Reader):
    """One JSON object a line; its keys are the columns, numbered as in the first line.

    A target may be a list of texts: the first is the target, the others are references.
    """

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def rows(self) -> Iterator[Row]:
        keys = None
        for number, line in lines(self.path):
            place = at(self.path, "line", number)
            if not line.strip():
                yield Row(place, {"source": None, "target": None})
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InputError(f"{place('')}: not JSON: {error}; JSONL has one object a line") from None
            if not isinstance(record, dict):
                raise InputError(f"{place('')}: not a JSON object with a source and a target")
            if keys is None:
                keys = self.names([*record], place(""))
            try:
                yield Row(place, apply(keys, record.__getitem__))
            except KeyError as missing:
                raise InputError(f"{place('')}: {unknown('column', missing.args[0], record)}") from None

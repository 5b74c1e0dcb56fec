"""JSON Lines: one JSON object per line."""

import json
from collections.abc import Iterator

from seqloom.data.examples import Row
from seqloom.data.lines import lines
from seqloom.data.readers.base import Reader, line_location, map_columns
from seqloom.errors import InputError, unknown
from seqloom.registry import register


@register("reader", "jsonl")
class Jsonl(Reader):
    """JSON Lines: one JSON object per line, whose keys are the columns.

    Column numbers refer to the order of the keys in the first line. A target may be a list of texts: the first one is
    the target, the others are additional references.
    """

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def rows(self) -> Iterator[Row]:
        keys = None
        for number, line in lines(self.path):
            locate = line_location(self.path, "line", number)
            if not line.strip():
                yield Row(locate, {"source": None, "target": None})
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InputError(
                    f"{locate('')}: not valid JSON: {error}; a JSONL file has one object per line"
                ) from None
            if not isinstance(record, dict):
                raise InputError(f"{locate('')}: not a JSON object with a source and a target")
            if keys is None:
                keys = self.resolve_columns([*record], locate(""))
            try:
                yield Row(locate, map_columns(keys, record.__getitem__))
            except KeyError as missing:
                raise InputError(f"{locate('')}: {unknown('column', missing.args[0], record)}") from None

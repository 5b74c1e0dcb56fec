"""Line-aligned text: line n of every file belongs together."""

import itertools
from collections.abc import Callable, Iterator

from seqloom.data.examples import Row
from seqloom.data.lines import STDIN, called, lines
from seqloom.data.readers.base import Reader
from seqloom.errors import InputError, OptionError
from seqloom.registry import register


@register("reader", "lines")
class Lines(Reader):
    """Line-aligned text: line n of every file belongs together: source, target, further references."""

    name = "lines"

    def check(self) -> None:
        shown = ", ".join(self.paths)
        if len(self.paths) < 2:
            raise OptionError(
                f"{shown}: line-aligned text is two files, source and target, e.g. 'train.{{de,en}}'; "
                f"a single file of pairs separated by tabs has --format tsv"
            )
        if self.paths.count(STDIN) > 1:
            raise OptionError("standard input (-) can be only one of the files")
        if self.columns is not None:
            raise OptionError(f"{shown}: line-aligned text has no columns; a single file has")

    def rows(self) -> Iterator[Row]:
        paths, counted = self.paths, [0] * len(self.paths)
        streams = [_counting(lines(path), counted, n) for n, path in enumerate(paths)]
        for number, texts in enumerate(itertools.zip_longest(*streams), 1):
            if None in texts:
                for stream in streams:
                    for _ in stream:
                        pass
                counts = ", ".join(f"{called(path)} has {n:,}" for path, n in zip(paths, counted, strict=True))
                raise InputError(
                    f"line-aligned files must have as many lines as each other, but {counts}; "
                    f"up to line {number - 1:,} all have one"
                )
            source, target, *references = texts
            yield Row(self._at(number), {"source": source, "target": target, "references": references})

    def _at(self, number: int) -> Callable[[str], str]:
        return lambda field: f"{called(self.paths[('source', 'target', 'references').index(field)])}, line {number}"


def _counting(stream: Iterator[tuple[int, str]], counted: list[int], n: int) -> Iterator[str]:
    for number, text in stream:
        counted[n] = number
        yield text

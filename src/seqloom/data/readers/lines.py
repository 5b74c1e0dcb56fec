"""Line-aligned text: line n of each file belongs to example n."""

import itertools
from collections.abc import Callable, Iterator

from seqloom.data.examples import Row
from seqloom.data.lines import STDIN, display_name, lines
from seqloom.data.readers.base import Reader
from seqloom.errors import ConfigError, InputError
from seqloom.registry import register


@register("reader", "lines")
class Lines(Reader):
    """Line-aligned text files: a source file, a target file and optional reference files."""

    name = "lines"

    def check(self) -> None:
        shown = ", ".join(self.paths)
        if len(self.paths) < 2:
            raise ConfigError(
                f"{shown}: line-aligned text needs two files, source and target, e.g. 'train.{{de,en}}'; "
                "for one file of tab-separated pairs, use --format tsv"
            )
        if self.paths.count(STDIN) > 1:
            raise ConfigError("standard input (-) can be only one of the files")
        if self.columns is not None:
            raise ConfigError(f"{shown}: line-aligned text has no columns: remove --columns")

    def rows(self) -> Iterator[Row]:
        paths, counts = self.paths, [0] * len(self.paths)
        streams = [_counting(lines(path), counts, n) for n, path in enumerate(paths)]
        for number, texts in enumerate(itertools.zip_longest(*streams), 1):
            if None in texts:
                for stream in streams:
                    for _ in stream:
                        pass
                shown = ", ".join(f"{display_name(path)} has {n:,}" for path, n in zip(paths, counts, strict=True))
                raise InputError(f"line-aligned files must have the same number of lines, but {shown}")
            source, target, *references = texts
            yield Row(self._location(number), {"source": source, "target": target, "references": references})

    def _location(self, number: int) -> Callable[[str], str]:
        sides = ("source", "target", "references")
        return lambda field: f"{display_name(self.paths[sides.index(field)])}, line {number}"


def _counting(stream: Iterator[tuple[int, str]], counts: list[int], n: int) -> Iterator[str]:
    """The lines of file n; ``counts[n]`` is the number of lines read so far."""
    for number, text in stream:
        counts[n] = number
        yield text

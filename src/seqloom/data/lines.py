"""Numbered lines of text from a file, which may be compressed, or from standard input."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, cast

from seqloom.errors import InputError

STDIN = "-"
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def display_name(path: str) -> str:
    """The name of a file in messages."""
    return "standard input" if path == STDIN else path


def plain_name(path: str) -> str:
    """The file name without the suffix of the compression format."""
    return path[: -len(Path(path).suffix)] if Path(path).suffix.lower() in COMPRESSED else path


def check_file(path: str) -> None:
    """Raise an error if a path is not a readable file; suggest the closest file name in its directory."""
    file = Path(path)
    if path == STDIN:
        return
    if file.is_file():
        try:
            open(path, "rb").close()
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        return
    if file.exists() and not file.is_dir():  # a pipe: opening it would start reading it
        return
    if file.is_dir():
        raise InputError(f"{path} is a directory: give a file in it")
    if not file.parent.is_dir():
        raise InputError(f"{path} not found: directory {file.parent} does not exist")
    near = get_close_matches(file.name, sorted(p.name for p in file.parent.iterdir() if p.is_file()), n=1)
    raise InputError(
        f"{path} not found" + (f"; did you mean {file.parent / near[0]}?" if near else ": check the file name")
    )


def lines(path: str) -> Iterator[tuple[int, str]]:
    """Iterate over the lines with their numbers, from 1, without line endings, each as soon as it is available."""
    number = 0
    with opened(path) as stream:
        try:
            for number, line in enumerate(stream, 1):  # a binary stream splits lines at \n only
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                line = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
                try:
                    yield number, line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{display_name(path)}, line {number}: {_not_utf8(line, error.start)}") from None
        except OSError as error:
            raise InputError(f"{display_name(path)}, after line {number}: reading failed: {error}") from None


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input, as a stream of uncompressed bytes."""
    if path == STDIN:
        if sys.stdin is sys.__stdin__ and sys.stdin is not None:
            # A separate reader: Python crashes at exit if a thread is still blocked on its own one.
            with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
                yield cast(BinaryIO, stream)
        else:
            yield sys.stdin.buffer
        return
    compression = COMPRESSED.get(Path(path).suffix.lower())
    try:
        if compression is None:
            opened_file = cast(BinaryIO, open(path, "rb"))  # noqa: SIM115
        else:
            import pyarrow as pa  # type: ignore[import-untyped]

            opened_file = cast(BinaryIO, io.BufferedReader(pa.input_stream(path, compression=compression), 1 << 16))
    except OSError as error:
        raise InputError(f"{path} can't be opened: {error}") from None
    with opened_file:
        yield opened_file


def _not_utf8(line: bytes, at: int) -> str:
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file is UTF-16, not UTF-8: convert it, e.g. iconv -f UTF-16 -t UTF-8"
    return (
        f"not UTF-8: byte {at + 1} of the line is 0x{line[at]:02X}; convert the file, e.g. from Latin-1: "
        f"iconv -f ISO-8859-1 -t UTF-8"
    )

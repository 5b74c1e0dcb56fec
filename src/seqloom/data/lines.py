"""Lines of a file that may be compressed, or of standard input: as text, with their numbers."""

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


def called(path: str) -> str:
    """What a file is called to a person."""
    return "standard input" if path == STDIN else path


def plain_name(path: str) -> str:
    """The name without what only says how the file is compressed."""
    return path[: -len(Path(path).suffix)] if Path(path).suffix.lower() in COMPRESSED else path


def check_file(path: str) -> None:
    """Refuse a path that is not a file, with the nearest name in its folder, or that may not be read."""
    file = Path(path)
    if path == STDIN:
        return
    if file.is_file():
        try:
            open(path, "rb").close()
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        return
    if file.exists() and not file.is_dir():  # a pipe: to open it would be to begin to read it
        return
    if file.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    if not file.parent.is_dir():
        raise InputError(f"{path} is not there, and there is no folder {file.parent}")
    near = get_close_matches(file.name, sorted(p.name for p in file.parent.iterdir() if p.is_file()), n=1)
    raise InputError(
        f"{path} is not there; " + (f"did you mean {file.parent / near[0]}?" if near else "check the name")
    )


def lines(path: str) -> Iterator[tuple[int, str]]:
    """Every line with its number from 1, without its end, each as soon as it can be read."""
    number = 0
    with opened(path) as stream:
        try:
            for number, line in enumerate(stream, 1):  # a binary stream ends its lines at \n and nowhere else
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                line = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
                try:
                    yield number, line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{called(path)}, line {number}: {_not_utf8(line, error.start)}") from None
        except OSError as error:
            raise InputError(f"{called(path)}, after line {number}: can't be read on: {error}") from None


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file's bytes, uncompressed, or those of standard input."""
    if path == STDIN:
        if sys.stdin is sys.__stdin__ and sys.stdin is not None:
            # A reader of its own: Python dies at its end of one that a thread still waits for.
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
        return "this is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    return (
        f"not UTF-8: byte {at + 1} is 0x{line[at]:02X}; convert the file, e.g. from Latin-1: "
        f"iconv -f ISO-8859-1 -t UTF-8"
    )

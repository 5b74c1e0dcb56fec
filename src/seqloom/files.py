"""Atomic writes: a crash never leaves a partial file or folder under the final name."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqloom.errors import WriteError


def write(path: Path, content: bytes | str) -> None:
    """Write a file atomically: write to a temporary file, flush it to disk, then rename it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise WriteError(f"{path} could not be written: {error.strerror}") from error


@contextmanager
def new_folder(home: Path) -> Iterator[Path]:
    """A temporary folder to write into; it replaces ``home`` on success and is removed on an error."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}."))
    except OSError as error:
        raise WriteError(f"{home.parent} is not writable: {error}") from None
    try:
        yield folder
        for file in folder.iterdir():  # flush the files before the rename
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        folder.chmod(0o755)
        if home.exists():
            old = folder.with_name(f"{folder.name}.old")
            home.rename(old)
            folder.rename(home)
            shutil.rmtree(old)
        else:
            folder.rename(home)
    except OSError as error:
        raise WriteError(f"{home} could not be written: {error}; the previous version is unchanged") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""Writing so that nothing half-written ever replaces something good."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqloom.errors import WriteError


def write(path: Path, content: bytes | str) -> None:
    """Write beside, make sure that it is on the disk, then rename; what was there before is safe until then."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise WriteError(f"{path} could not be written: {error.strerror}") from error


@contextmanager
def new_folder(home: Path) -> Iterator[Path]:
    """A new folder to write into; it takes the place of ``home`` if all goes well, and else is removed."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}."))
    except OSError as error:
        raise WriteError(f"{home.parent} can't be written to: {error}") from None
    try:
        yield folder
        for file in folder.iterdir():  # on the disk before its name is
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
        raise WriteError(f"{home} can't be written: {error}; what was there before is still there") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)

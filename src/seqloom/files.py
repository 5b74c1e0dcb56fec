"""Writing so that nothing half-written ever replaces something good."""

import os
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

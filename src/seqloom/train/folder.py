"""The folder that a run is."""

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.config import Config, make_config, read_config, to_yaml
from seqloom.errors import OptionError, WriteError
from seqloom.files import write


@dataclass(frozen=True)
class RunFolder:
    """A run on disk: configuration, fields, weights, what was measured, and what is needed to go on.

    It holds no path outside itself but those of the files it was trained on, so it works wherever it is moved.
    """

    path: Path

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def fields(self) -> Path:
        """The fields, as they were fitted; their arrays are beside it."""
        return self.path / "fields.json"

    @property
    def weights(self) -> Path:
        """The weights to use: the best, or the average of the best."""
        return self.path / "model.safetensors"

    @property
    def metrics(self) -> Path:
        """One line per measurement, the same for every run of this configuration."""
        return self.path / "metrics.jsonl"

    @property
    def timing(self) -> Path:
        """One line per measurement of speed."""
        return self.path / "timing.jsonl"

    @property
    def readme(self) -> Path:
        """What the run is, for people."""
        return self.path / "README.md"

    @property
    def data(self) -> Path:
        """The compiled corpus, where the run has its own."""
        return self.path / "data"

    @property
    def checkpoint(self) -> Path:
        """All that is needed to go on."""
        return self.path / "checkpoints" / "last.pt"

    def kept(self, update: int) -> Path:
        """The weights after an update, kept as one of the best."""
        return self.path / "checkpoints" / f"{update:08d}.safetensors"

    @property
    def exists(self) -> bool:
        """Whether there is a run here."""
        return self.config.exists()

    @property
    def finished(self) -> bool:
        """Whether training came to its end, and was not stopped on the way."""
        return any("final" in record for record in Lines(self.metrics))

    @property
    def to_go_on(self) -> str:
        """What to do with a run that was stopped on the way."""
        return f"to go on: seqloom train --resume {shlex.quote(str(self.path))}"

    def check_free(self) -> None:
        """Refuse to begin a run where something else is; what an early stop leaves of a run is overwritten."""
        if self.checkpoint.exists():
            raise OptionError(f"{self.path} is a run already: seqloom train --resume {self.path}, or another --out")
        own = (self.config, self.fields, self.data, self.checkpoint.parent, self.metrics, self.timing)
        early = {path.name for path in own} | {"fields.safetensors", "tokenizer.json", "tensorboard"}
        there = [p.name for p in self.path.iterdir()] if self.path.is_dir() else [self.path.name] * self.path.exists()
        if any(name not in early and not name.startswith(".") for name in there):  # hidden: what a kill leaves
            raise OptionError(f"{self.path} is there and is not a run: choose another --out, or remove it")

    def sweep(self) -> None:
        """Remove what a kill left half-written: files, and a corpus that was being compiled."""
        for part in self.path.rglob(".*.part"):
            part.unlink()
        for part in self.path.glob(f".{self.data.name}.*"):
            shutil.rmtree(part)

    def write_config(self, config: Config, command: str) -> None:
        """Keep the resolved configuration, and the command that made it."""
        write(self.config, f"# {' '.join(command.split())}\n{to_yaml(config.model_dump(mode='json'))}")

    @property
    def command(self) -> str:
        """The command that made the run."""
        first, *_ = self.config.read_text(encoding="utf-8").splitlines()
        return first.removeprefix("# ")

    def read_config(self) -> Config:
        """The resolved configuration."""
        if not self.exists:
            raise OptionError(f"{self.path} is not a run: it has no config.yaml")
        return make_config(read_config(self.config))


class Lines:
    """A file of JSON lines that is appended to, and can be cut back to what a checkpoint knew."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """One more line."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise WriteError(f"{self.path} could not be written: {error.strerror}") from error

    def length(self) -> int:
        """How many bytes there are, all of them safely on the disk."""
        if not self.path.exists():
            return 0
        try:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise WriteError(f"{self.path} could not be written: {error.strerror}") from error
        return self.path.stat().st_size

    def cut(self, length: int) -> None:
        """Forget what came after."""
        if not self.path.exists() and not length:
            return
        try:
            with self.path.open("r+b") as file:
                file.truncate(length)
        except OSError as error:
            raise WriteError(f"{self.path} could not be cut: {error.strerror}") from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                yield from map(json.loads, file)

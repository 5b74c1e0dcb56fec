"""Run folders: the files of a training run."""

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.config import Config, make_config, read_config, to_yaml
from seqloom.errors import ConfigError, WriteError
from seqloom.files import write
from seqloom.renames import update_names

FORMAT = 2
"""Format version of run folders. Version 1 has the option names from before 0.1.0."""
READABLE = (1, FORMAT)


@dataclass(frozen=True)
class RunFolder:
    """A run on disk: configuration, fields, weights, metrics and checkpoints.

    The only paths that it contains are those of the training data, so the folder can be moved.
    """

    path: Path

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def fields(self) -> Path:
        """The fitted fields, such as tokenizers; their arrays are in a file next to it."""
        return self.path / "fields.json"

    @property
    def weights(self) -> Path:
        """The weights used for prediction: the best checkpoint, or the average of the best ones."""
        return self.path / "model.safetensors"

    @property
    def metrics(self) -> Path:
        """Losses and validation metrics as JSON lines; identical for every run of this configuration."""
        return self.path / "metrics.jsonl"

    @property
    def timing(self) -> Path:
        """Training speed as JSON lines."""
        return self.path / "timing.jsonl"

    @property
    def readme(self) -> Path:
        """A description of the run as Markdown."""
        return self.path / "README.md"

    @property
    def data(self) -> Path:
        """The prepared corpus, unless the run uses one from elsewhere."""
        return self.path / "data"

    @property
    def checkpoint(self) -> Path:
        """The last checkpoint, from which training resumes."""
        return self.path / "checkpoints" / "last.pt"

    def best_checkpoint(self, update: int) -> Path:
        """The weights after an update that is among the best."""
        return self.path / "checkpoints" / f"{update:08d}.safetensors"

    @property
    def exists(self) -> bool:
        """Whether the folder contains a run."""
        return self.config.exists()

    @property
    def finished(self) -> bool:
        """Whether training finished, rather than being interrupted."""
        return any("final" in record for record in JsonlLog(self.metrics))

    @property
    def resume_hint(self) -> str:
        """How to resume an interrupted run, as a message."""
        return f"to resume: seqloom train --resume {shlex.quote(str(self.path))}"

    def check_free(self) -> None:
        """Check that a new run can be written here; it may replace a run that has no checkpoint yet."""
        if self.checkpoint.exists():
            raise ConfigError(
                f"{self.path} already contains a run: resume it (seqloom train --resume {self.path}) "
                "or choose another --out"
            )
        files = (self.config, self.fields, self.data, self.checkpoint.parent, self.metrics, self.timing)
        expected = {path.name for path in files} | {"fields.safetensors", "tokenizer.json", "tensorboard"}
        found = [p.name for p in self.path.iterdir()] if self.path.is_dir() else [self.path.name] * self.path.exists()
        if any(name not in expected and not name.startswith(".") for name in found):  # hidden: left by a killed run
            raise ConfigError(f"{self.path} exists and is not a run: choose another --out, or remove it")

    def remove_partial_files(self) -> None:
        """Remove partial files and partial corpora that a killed run left."""
        for part in self.path.rglob(".*.part"):
            part.unlink()
        for part in self.path.glob(f".{self.data.name}.*"):
            shutil.rmtree(part)

    def write_config(self, config: Config, command: str) -> None:
        """Write the resolved configuration, with the command that started the run as a comment."""
        settings = {"format": FORMAT, **config.model_dump(mode="json")}
        write(self.config, f"# {' '.join(command.split())}\n{to_yaml(settings)}")

    @property
    def command(self) -> str:
        """The command that started the run."""
        first, *_ = self.config.read_text(encoding="utf-8").splitlines()
        return first.removeprefix("# ")

    def read_config(self) -> Config:
        """The resolved configuration."""
        if not self.exists:
            raise ConfigError(f"{self.path} is not a run: it has no config.yaml")
        settings = read_config(self.config)
        version = settings.pop("format", 1)
        if version not in READABLE:
            raise ConfigError(
                f"{self.config} has format {version!r}, but this version of seqloom reads formats up to {FORMAT}: "
                "update seqloom"
            )
        if version < FORMAT:
            settings, _ = update_names(settings)
        return make_config(settings)


class JsonlLog:
    """A log file of JSON lines, which can be truncated to its length at a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Append a record."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise WriteError(f"{self.path} could not be written: {error.strerror}") from error

    def length(self) -> int:
        """Length of the file in bytes, after flushing it to disk."""
        if not self.path.exists():
            return 0
        try:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise WriteError(f"{self.path} could not be written: {error.strerror}") from error
        return self.path.stat().st_size

    def truncate(self, length: int) -> None:
        """Truncate the file to ``length`` bytes."""
        if not self.path.exists() and not length:
            return
        try:
            with self.path.open("r+b") as file:
                file.truncate(length)
        except OSError as error:
            raise WriteError(f"{self.path} could not be truncated: {error.strerror}") from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                yield from map(json.loads, file)

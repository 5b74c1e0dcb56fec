"""Preprocessing: fit the fields, binarize the examples, and write a prepared corpus that training memory-maps.

A prepared corpus is a directory:

fields.json   the fitted fields; their arrays are in fields.safetensors
train.arrow   the encoded training set
dev.arrow     the validation set, encoded and as read
corpus.json   metadata: files, counts, checksums, and how many examples were skipped for which reason
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.corpus import Corpus, CorpusWriter
from seqloom.data.examples import Example, Examples, OnEmpty, Skipped
from seqloom.data.fields import Fields, text_specs
from seqloom.data.lines import STDIN
from seqloom.data.readers import examples_of
from seqloom.errors import ConfigError, InputError, SentenceError
from seqloom.files import new_folder
from seqloom.registry import Spec

FORMAT = "seqloom corpus"
VERSION = 3
READABLE_VERSIONS = (1, 2, VERSION)
METADATA_FILE = "corpus.json"
CHUNK_SIZE = 1 << 13
"""Pairs encoded in one call: enough to use all cores, few enough to fit in memory."""

Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class PreparedCorpus:
    """A directory written by ``prepare``."""

    folder: Path
    fields: Fields
    train: Corpus
    dev: Corpus | None
    metadata: dict[str, Any]

    @property
    def digest(self) -> str:
        """Checksum of the encoded examples and their order."""
        parts = [self.metadata[part] for part in ("train", "dev")]
        return "-".join(part.get("sha256", "") for part in parts if part is not None)

    @classmethod
    def open(cls, folder: Path | str) -> "PreparedCorpus":
        """Open a prepared corpus; its examples are memory-mapped, not loaded."""
        home = Path(folder)
        if not is_prepared(home):
            raise InputError(f"{home} is not a prepared corpus: make one with seqloom prepare")
        try:
            metadata = json.loads((home / METADATA_FILE).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{home / METADATA_FILE} is damaged ({error}): prepare the corpus again") from None
        if metadata.get("format") != FORMAT or metadata.get("version") not in READABLE_VERSIONS:
            raise InputError(f"{home} was not written by a supported version of seqloom: prepare it again")
        dev = Corpus.open(home / "dev.arrow") if metadata["dev"] is not None else None
        train = Corpus.open(home / "train.arrow")
        return cls(home, Fields.load(home), train, dev, metadata)


def is_prepared(folder: Path) -> bool:
    """Whether a directory is a prepared corpus."""
    return (folder / METADATA_FILE).is_file() and (folder / "train.arrow").is_file()


def prepare(
    out: Path | str,
    train: Any,
    dev: Any = None,
    *,
    source_tokenizer: Spec = "bpe",
    target_tokenizer: Spec = "bpe",
    fields: Mapping[str, Spec] | Fields | None = None,
    share_vocabulary: bool = False,
    max_length: int = 250,
    on_empty: OnEmpty = "skip",
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Preprocess a corpus into the directory ``out``, which is created atomically: it appears complete or not at all.

    train, dev: training set and validation set: ``Examples``, file paths, or pairs of texts. Data that can be read
        only once (standard input, an iterator) is first copied to a temporary file, since it is read twice.
    source_tokenizer, target_tokenizer: tokenizers of source and target, unless ``fields`` defines these fields.
    fields: additional fields by name, or other kinds of source and target, to fit on the training data; or a fitted
        ``Fields``, which is used as it is.
    share_vocabulary: train one tokenizer for source and target, with a joint vocabulary.
    max_length: maximum number of steps in any field: longer training examples are skipped and counted. Validation
        examples are all kept.
    on_empty: whether to skip and count pairs with an empty side, or to raise an error.
    progress: called with the name of the current stage and the number of pairs processed.
    """
    home = Path(out)
    train = examples_of(train, name="train")
    dev = None if dev is None else examples_of(dev, name="dev")
    check_data(train, dev)
    if home.exists() and not is_prepared(home) and not (home.is_dir() and not any(home.iterdir())):
        raise ConfigError(f"{home} already exists and is not a prepared corpus: choose another directory")
    with new_folder(home) as folder:
        training = _Source(train, on_empty, folder / "train.spool", progress)
        if not isinstance(fields, Fields):
            fields = Fields(
                {**text_specs(source_tokenizer, target_tokenizer), **(fields or {})}, shared=share_vocabulary
            )
            fields.fit(lambda: training.examples("training tokenizers"))
        train_metadata, fields.limits = _encode(training, folder / "train.arrow", fields, max_length=max_length)
        fields.save(folder)
        metadata: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "seqloom": version("seqloom"),
            "fields": fields.specs,
            "shared": fields.shared,
            "sizes": {name: field.size for name, field in fields.items()},
            "max_length": max_length,
            "train": train_metadata,
            "dev": None,
        }
        if dev is not None:
            validation = _Source(dev, on_empty, folder / "dev.spool", progress)
            metadata["dev"], _ = _encode(validation, folder / "dev.arrow", fields, keep_examples=True)
        for spool in folder.glob("*.spool"):
            spool.unlink()
        (folder / METADATA_FILE).write_text(
            json.dumps(metadata, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return PreparedCorpus.open(home)


def check_data(train: Examples, dev: Examples | None) -> None:
    """Raise an error for data that can't be read, before any work is done."""
    for examples in (train, dev):
        if examples is not None:
            examples.check()
    if dev is not None and STDIN in train.paths and STDIN in dev.paths:
        raise ConfigError("standard input (-) can be the training data or the validation data, not both")


class Spooled:
    """A temporary copy, on disk, of examples that can be read only once."""

    once = False

    def __init__(self, path: Path, examples: Iterable[Example], paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._path = path
        with path.open("w", encoding="utf-8") as file:
            for example in examples:
                file.write(json.dumps(example) + "\n")

    def check(self) -> None:
        """Do nothing: the examples have already been read."""

    def read(self, *, on_empty: OnEmpty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """Iterate over all examples; empty ones were skipped when the copy was written."""
        with self._path.open(encoding="utf-8") as file:
            for line in file:
                yield Example(**json.loads(line))


class _Source:
    """Training or validation examples that can be read repeatedly, with a count of skipped ones."""

    def __init__(self, given: Examples, on_empty: OnEmpty, spool: Path, progress: Progress | None) -> None:
        self.name = spool.stem
        self.skipped = Skipped()
        self.files = _metadata(given.paths)
        self._on_empty = on_empty
        self._progress = progress
        if given.once:
            read = given.read(on_empty=on_empty, skipped=self.skipped)
            given = Spooled(spool, self._report_progress("reading", read), given.paths)
        self._examples = given

    def examples(self, stage: str, *, count_skipped: bool = False) -> Iterator[Example]:
        """Iterate over all examples, from the first one."""
        skipped = self.skipped if count_skipped else None
        return self._report_progress(stage, self._examples.read(on_empty=self._on_empty, skipped=skipped))

    def _report_progress(self, stage: str, examples: Iterator[Example]) -> Iterator[Example]:
        """Pass the examples through, and call ``progress`` now and then."""
        count = 0
        for count, example in enumerate(examples, 1):
            yield example
            if count % CHUNK_SIZE == 0 and self._progress is not None:
                self._progress(f"{self.name}: {stage}", count)
        if self._progress is not None:
            self._progress(f"{self.name}: {stage}", count)


def _encode(
    data: _Source, path: Path, fields: Fields, *, max_length: int | None = None, keep_examples: bool = False
) -> tuple[dict[str, Any], dict[str, float]]:
    """Encode all examples and write them to a file. Lengths exclude the steps that mark the end, such as EOS.

    keep_examples: whether to store the examples as read, too.

    Returns the metadata of the file, and the maximum lengths.
    """
    metadata = {
        "pairs": 0,
        **{f"{field}_tokens": 0 for field in fields},
        **{f"longest_{field}": 0 for field in fields},
    }
    ratio, read = 0.0, 0
    stream = data.examples("encoding", count_skipped=True)
    columns = {name: (field.dtype, field.shape) for name, field in fields.items()}
    with CorpusWriter(path, columns, examples=keep_examples) as writer:
        while chunk := list(islice(stream, CHUNK_SIZE)):
            _check_columns(chunk[0], fields, data.name)
            try:
                encoded = {name: fields.encode(name, chunk) for name in fields}
            except SentenceError as error:
                raise InputError(
                    f"{data.name} data, example {read + (error.sentence or 0)}: {error.problem}"
                ) from None
            read += len(chunk)
            lengths = np.array([[len(row) - fields[name].end_steps for row in encoded[name]] for name in fields])
            kept = []
            for n, steps in enumerate(lengths.T.tolist()):
                if not all(steps):  # normalization can empty a text
                    data.skipped["empty"] += 1
                elif max_length is not None and max(steps) > max_length:
                    data.skipped["too long"] += 1
                else:
                    kept.append(n)
            rows = {name: [encoded[name][n] for n in kept] for name in fields}
            writer.add(rows, examples=[chunk[n] for n in kept] if keep_examples else None)
            for name, steps in zip(fields, lengths[:, kept], strict=True):
                metadata[f"{name}_tokens"] += int(steps.sum())
                metadata[f"longest_{name}"] = max(metadata[f"longest_{name}"], int(steps.max(initial=0)))
            metadata["pairs"] += len(kept)
            source, target = (lengths[list(fields).index(side), kept] for side in ("source", "target"))
            ratio = max(ratio, float((target / source).max(initial=0)))
    if not metadata["pairs"]:
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in data.skipped.items()) or "none"
        raise InputError(f"the {data.name} data has no usable pairs (skipped: {skipped})")
    limits = {"source": metadata["longest_source"], "target": metadata["longest_target"], "ratio": ratio}
    return (
        {**metadata, "sha256": _sha256(path), "skipped": dict(sorted(data.skipped.items())), "files": data.files},
        limits,
    )


def _check_columns(example: Example, fields: Fields, name: str) -> None:
    """Raise an error for a column without a field: it would be silently ignored."""
    for column in example.keys() - {*fields, "references"}:
        raise InputError(
            f"the {name} data has a column {column!r}, but the model's fields are {', '.join(fields)}: "
            f"remove it, or define data.fields.{column}"
        )


def _metadata(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Path, size and checksum of each file."""
    files: list[dict[str, Any]] = []
    for path in paths:
        if path == STDIN:
            files.append({"path": "standard input"})
        elif not Path(path).is_file():  # a pipe: reading it here would consume it
            files.append({"path": path})
        else:
            files.append({"path": path, "bytes": os.path.getsize(path), "sha256": _sha256(path)})
    return files


def _sha256(path: Path | str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

"""A corpus compiled once: fields fitted, examples encoded, everything in one folder that training maps.

fields.json   the fields as they were fitted; their arrays are in fields.safetensors
train.arrow   the training examples as numbers
dev.arrow     the dev examples as numbers and as they were read
corpus.json   facts: files, counts, digests, what was skipped and why
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
from seqloom.data.examples import Empty, Example, Examples, Skipped
from seqloom.data.fields import Fields, text_specs
from seqloom.data.lines import STDIN
from seqloom.data.readers import examples_of
from seqloom.errors import InputError, OptionError, SentenceError
from seqloom.files import new_folder
from seqloom.registry import Spec

FORMAT = "seqloom corpus"
VERSION = 3
READ = (1, 2, VERSION)
"""Versions that can still be read."""
FACTS = "corpus.json"
AT_ONCE = 1 << 13
"""Pairs that are encoded together: enough for all cores, little enough to hold."""

Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Prepared:
    """A folder that ``prepare`` made."""

    folder: Path
    fields: Fields
    train: Corpus
    dev: Corpus | None
    facts: dict[str, Any]

    @property
    def digest(self) -> str:
        """What tells these pairs, in these tokens and this order, from any others."""
        parts = [self.facts[part] for part in ("train", "dev")]
        return "-".join(part.get("sha256", "") for part in parts if part is not None)

    @classmethod
    def open(cls, folder: Path | str) -> "Prepared":
        """The corpus in a folder; it is mapped, not loaded."""
        home = Path(folder)
        if not is_prepared(home):
            raise InputError(f"{home} holds no prepared corpus; make one with seqloom prepare")
        try:
            facts = json.loads((home / FACTS).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{home / FACTS} is damaged: {error}; prepare the corpus again") from None
        if facts.get("format") != FORMAT or facts.get("version") not in READ:
            raise InputError(f"{home} was not prepared by this version of seqloom: prepare it again")
        dev = Corpus.open(home / "dev.arrow") if facts["dev"] is not None else None
        train = Corpus.open(home / "train.arrow")
        return cls(home, Fields.load(home), train, dev, facts)


def is_prepared(folder: Path) -> bool:
    """Whether a folder is one that ``prepare`` made."""
    return (folder / FACTS).is_file() and (folder / "train.arrow").is_file()


def prepare(
    out: Path | str,
    train: Any,
    dev: Any = None,
    *,
    source: Spec = "bpe",
    target: Spec = "bpe",
    fields: Mapping[str, Spec] | Fields | None = None,
    shared: bool = False,
    max_length: int = 250,
    empty: Empty = "skip",
    progress: Progress | None = None,
) -> Prepared:
    """Compile a corpus into the folder ``out``, which is put in place whole, or not at all.

    train, dev: ``Examples``, paths of files, or pairs of texts. What can be read only once (standard input, an
        iterator) is first written to a temporary file, as it is needed twice.
    source, target: the tokenizers of the text fields that ``fields`` does not name.
    fields: further fields by name, and other kinds of source and target, to be fitted on the training data; or all
        fields, as they were fitted elsewhere.
    shared: one tokenizer for source and target.
    max_length: training examples with more steps in any field are skipped and counted; dev examples are all kept.
    empty: whether pairs with an empty side are skipped and counted, or refused.
    progress: called with what is being done and how many pairs it has been done to.
    """
    home = Path(out)
    train = examples_of(train, name="train")
    dev = None if dev is None else examples_of(dev, name="dev")
    check_data(train, dev)
    if home.exists() and not is_prepared(home) and not (home.is_dir() and not any(home.iterdir())):
        raise OptionError(f"{home} is there and is no prepared corpus, so it is not overwritten: name another folder")
    with new_folder(home) as folder:
        training = _Data(train, empty, folder / "train.spool", progress)
        if not isinstance(fields, Fields):
            fields = Fields({**text_specs(source, target), **(fields or {})}, shared=shared)
            fields.fit(lambda: training.examples("tokenizers"))
        compiled, fields.limits = _compile(training, folder / "train.arrow", fields, max_length=max_length)
        fields.save(folder)
        facts: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "seqloom": version("seqloom"),
            "fields": fields.specs,
            "shared": fields.shared,
            "sizes": {name: field.size for name, field in fields.items()},
            "max_length": max_length,
            "train": compiled,
            "dev": None,
        }
        if dev is not None:
            checking = _Data(dev, empty, folder / "dev.spool", progress)
            facts["dev"], _ = _compile(checking, folder / "dev.arrow", fields, keep=True)
        for spool in folder.glob("*.spool"):
            spool.unlink()
        (folder / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Prepared.open(home)


def check_data(train: Examples, dev: Examples | None) -> None:
    """Refuse what can't be read, before any work is done."""
    for examples in (train, dev):
        if examples is not None:
            examples.check()
    if dev is not None and STDIN in train.paths and STDIN in dev.paths:
        raise OptionError("standard input (-) can be the training data or the dev data, not both")


class Spooled:
    """Examples in a file of our own, where what could be read only once is kept to be read again."""

    once = False

    def __init__(self, path: Path, examples: Iterable[Example], paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._path = path
        with path.open("w", encoding="utf-8") as file:
            for example in examples:
                file.write(json.dumps(example) + "\n")

    def check(self) -> None:
        """They have been read already."""

    def read(self, *, empty: Empty = "skip", skipped: Skipped | None = None) -> Iterator[Example]:
        """All of them; none is left out, as that has been done."""
        with self._path.open(encoding="utf-8") as file:
            for line in file:
                yield Example(**json.loads(line))


class _Data:
    """Examples that can be read again, and what was skipped."""

    def __init__(self, given: Examples, empty: Empty, spool: Path, progress: Progress | None) -> None:
        self.name = spool.stem
        self.skipped = Skipped()
        self.files = _facts(given.paths)
        self._empty = empty
        self._progress = progress
        if given.once:
            read = given.read(empty=empty, skipped=self.skipped)
            given = Spooled(spool, self._counted("reading", read), given.paths)
        self._examples = given

    def examples(self, what: str, *, count_skipped: bool = False) -> Iterator[Example]:
        """All examples from the first on."""
        skipped = self.skipped if count_skipped else None
        return self._counted(what, self._examples.read(empty=self._empty, skipped=skipped))

    def _counted(self, what: str, examples: Iterator[Example]) -> Iterator[Example]:
        """The same examples; progress is told from time to time."""
        count = 0
        for count, example in enumerate(examples, 1):
            yield example
            if count % AT_ONCE == 0 and self._progress is not None:
                self._progress(f"{self.name}: {what}", count)
        if self._progress is not None:
            self._progress(f"{self.name}: {what}", count)


def _compile(
    data: _Data, path: Path, fields: Fields, *, max_length: int | None = None, keep: bool = False
) -> tuple[dict[str, Any], dict[str, float]]:
    """Encode and write all examples; what is in the file, as facts, and how long targets are. Lengths do not count
    steps that mark the end.

    keep: the examples as read too.
    """
    facts = {"pairs": 0, **{f"{field}_tokens": 0 for field in fields}, **{f"longest_{field}": 0 for field in fields}}
    ratio, read = 0.0, 0
    stream = data.examples("encoding", count_skipped=True)
    columns = {name: (field.dtype, field.shape) for name, field in fields.items()}
    with CorpusWriter(path, columns, examples=keep) as writer:
        while chunk := list(islice(stream, AT_ONCE)):
            _check_columns(chunk[0], fields, data.name)
            try:
                encoded = {name: fields.encode(name, chunk) for name in fields}
            except SentenceError as error:
                raise InputError(
                    f"the {data.name} data, example {read + (error.sentence or 0)}: {error.problem}"
                ) from None
            read += len(chunk)
            lengths = np.array([[len(row) - fields[name].end_steps for row in encoded[name]] for name in fields])
            kept = []
            for n, steps in enumerate(lengths.T.tolist()):
                if not all(steps):  # normalisation can leave nothing of a text
                    data.skipped["empty"] += 1
                elif max_length is not None and max(steps) > max_length:
                    data.skipped["too long"] += 1
                else:
                    kept.append(n)
            rows = {name: [encoded[name][n] for n in kept] for name in fields}
            writer.add(rows, examples=[chunk[n] for n in kept] if keep else None)
            for name, steps in zip(fields, lengths[:, kept], strict=True):
                facts[f"{name}_tokens"] += int(steps.sum())
                facts[f"longest_{name}"] = max(facts[f"longest_{name}"], int(steps.max(initial=0)))
            facts["pairs"] += len(kept)
            source, target = (lengths[list(fields).index(side), kept] for side in ("source", "target"))
            ratio = max(ratio, float((target / source).max(initial=0)))
    if not facts["pairs"]:
        why = ", ".join(f"{count:,} {reason}" for reason, count in data.skipped.items()) or "there are none"
        raise InputError(f"no pair is left of the {data.name} data: {why}")
    limits = {"source": facts["longest_source"], "target": facts["longest_target"], "ratio": ratio}
    return (
        {**facts, "sha256": _sha256(path), "skipped": dict(sorted(data.skipped.items())), "files": data.files},
        limits,
    )


def _check_columns(example: Example, fields: Fields, name: str) -> None:
    """Refuse a column that there is no field for: it would be ignored without a word."""
    for column in example.keys() - {*fields, "references"}:
        raise InputError(f"the {name} data has a column {column!r}, and a model reads {' and '.join(fields)}")


def _facts(paths: Iterable[str]) -> list[dict[str, Any]]:
    """What identifies each file."""
    found: list[dict[str, Any]] = []
    for path in paths:
        if path == STDIN:
            found.append({"path": "standard input"})
        elif not Path(path).is_file():  # a pipe can be read only once, and not here
            found.append({"path": path})
        else:
            found.append({"path": path, "bytes": os.path.getsize(path), "sha256": _sha256(path)})
    return found


def _sha256(path: Path | str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

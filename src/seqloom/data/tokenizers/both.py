"""The tokenizers of both sides: trained on examples, kept in one file."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.data.examples import Example
from seqloom.data.tokenizers.base import Cutter
from seqloom.data.tokenizers.tokenizer import Tokenizer
from seqloom.errors import InputError, OptionError
from seqloom.files import write
from seqloom.registry import Spec, build

FORMAT = "seqloom tokenizers"
VERSION = 1


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizer of each side; ``shared`` if both are one.

    limits: how long the sources and targets that they were trained with are, in tokens: ``source`` and ``target``,
        the longest of each, and ``ratio``, the most target tokens per source token. None in older files.
    """

    source: Tokenizer
    target: Tokenizer
    shared: bool = False
    limits: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.shared and self.source is not self.target:
            raise OptionError("shared tokenizers are one and the same; these are two")

    def save(self, path: Path | str) -> None:
        """Write both into one file, put in place whole."""
        target = None if self.shared else self.target.to_json()
        data: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "source": self.source.to_json(),
            "target": target,
        }
        if self.limits is not None:
            data["limits"] = dict(self.limits)
        write(Path(path), json.dumps(data, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizers":
        """What ``save`` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}; prepare the data again, or copy the file again") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"{path} holds no tokenizers of seqloom; it may be another tool's file of the same name")
        if data.get("version") != VERSION:
            raise InputError(
                f"{path} has version {data.get('version')!r}, and this seqloom reads {VERSION}: update it"
            )
        try:
            source = Tokenizer.from_json(data["source"])
            shared = data["target"] is None
            target = source if shared else Tokenizer.from_json(data["target"])
            return cls(source, target, shared, data.get("limits"))
        except Exception as error:  # the library raises plain Exception
            raise InputError(f"{path} is damaged: {error}; prepare the data again, or copy the file again") from None


def train_tokenizers(
    examples: Callable[[], Iterable[Example]], source: Spec, target: Spec, *, shared: bool = False
) -> Tokenizers:
    """Tokenizers for both sides, learned from examples that are read once per tokenizer and not kept.

    examples: called for every reading.
    source, target: specifications of parts of kind "tokenizer".
    shared: one tokenizer, learned from both sides; the specifications must then be the same.
    """
    cutter: Cutter = build("tokenizer", source)
    other: Cutter = build("tokenizer", target)
    if shared:
        if cutter.spec != other.spec:
            raise OptionError(f"a shared tokenizer can't be both {cutter.spec} and {other.spec}: make them equal")
        one = cutter.train(_both(examples()))
        return Tokenizers(one, one, True)
    sources = (example.source for example in examples())
    return Tokenizers(cutter.train(sources), other.train(example.target for example in examples()))


def _both(examples: Iterable[Example]) -> Iterator[str]:
    for example in examples:
        yield example.source
        yield example.target

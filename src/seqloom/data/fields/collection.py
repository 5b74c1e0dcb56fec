"""The fields of a run: made from their specifications, fitted on examples, kept in its folder."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.examples import SIDES, Example
from seqloom.data.fields.base import Field
from seqloom.data.fields.text import Text
from seqloom.data.pad import Array
from seqloom.errors import InputError, OptionError, SentenceError, SeqloomError, UnknownNameError
from seqloom.files import write
from seqloom.registry import Spec, build, find, options, split

FORMAT, VERSION, FILE = "seqloom fields", 1, "fields.json"
OLD_FORMAT, OLD_VERSION, OLD_FILE = "seqloom tokenizers", 1, "tokenizer.json"
"""Where older versions kept the tokenizers of source and target, the only fields there were."""


class Fields(dict[str, Field]):
    """Fields by name: source, target, and further ones.

    specs: of every field. The target's marks where it ends, if its kind can.
    shared: one tokenizer for source and target, trained on both.
    limits: how long the sources and targets are that they were fitted on, in steps: ``source`` and ``target``, the
        longest of each, and ``ratio``, the most target steps per source step. None in older files.
    """

    def __init__(
        self, specs: Mapping[str, Spec], *, shared: bool = False, limits: Mapping[str, float] | None = None
    ) -> None:
        self.specs = {name: _as_target(spec) if name == "target" else spec for name, spec in specs.items()}
        self.shared, self.limits = shared, limits
        super().__init__({name: build("field", spec) for name, spec in self.specs.items()})
        if shared:
            sides = [self[side] for side in SIDES]
            kinds = [field.cutter.spec for field in sides if isinstance(field, Text)]
            if len(kinds) < len(SIDES):
                raise OptionError("data.shared is for a source and a target that are both text: leave it out")
            if kinds[0] != kinds[1]:
                raise OptionError(f"a shared tokenizer can't be both {kinds[0]} and {kinds[1]}: make them equal")

    def fit(self, examples: Callable[[], Iterable[Example]]) -> "Fields":
        """Fit every field on examples, which are read once for each and not kept."""
        for name, field in self.items():
            if not self.shared or name not in SIDES:
                field.fit(_column(name, examples()))
        if self.shared:
            self["source"].fit(example[side] for example in examples() for side in SIDES)
            self["target"].restore(self["source"].state())
        return self

    def encode(self, name: str, examples: Sequence[Mapping[str, Any]]) -> list[Array]:
        """A column of examples as arrays; what can't be encoded is named by its number."""
        for number, example in enumerate(examples):
            if name not in example:
                raise SentenceError(
                    f"it has no {name!r}, which this model reads; it has {', '.join(example)}", number
                )
        try:
            return self[name].encode([example[name] for example in examples], examples)
        except SeqloomError:
            for number, example in enumerate(examples):
                try:
                    self[name].encode([example[name]], [example])
                except SeqloomError as error:
                    raise SentenceError(f"its {name}: {error}", number) from None
            raise

    def same(self, other: "Fields") -> bool:
        """Whether all fields are the same."""
        return self.keys() == other.keys() and all(field.same(other[name]) for name, field in self.items())

    def save(self, folder: Path) -> None:
        """Write all of them into a folder as JSON, and arrays as safetensors."""
        from safetensors.numpy import save

        states = {name: field.state() for name, field in self.items() if not (self.shared and name == "target")}
        arrays = {
            f"{name}.{key}": value
            for name, state in states.items()
            for key, value in state.items()
            if isinstance(value, np.ndarray)
        }
        data = {
            "format": FORMAT,
            "version": VERSION,
            "shared": self.shared,
            "limits": self.limits,
            "fields": self.specs,
            "states": {
                name: {key: value for key, value in state.items() if f"{name}.{key}" not in arrays}
                for name, state in states.items()
            },
        }
        if arrays:
            write((folder / FILE).with_suffix(".safetensors"), save(arrays))
        write(folder / FILE, json.dumps(data, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Fields":
        """What ``save`` wrote, or the tokenizers that an older version wrote."""
        old = not (folder / FILE).exists() and (folder / OLD_FILE).exists()
        path = folder / (OLD_FILE if old else FILE)
        form, version = (OLD_FORMAT, OLD_VERSION) if old else (FORMAT, VERSION)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}; prepare the data again, or copy the file again") from None
        if not isinstance(data, dict) or data.get("format") != form:
            raise InputError(f"{path} holds no {form}; it may be another tool's file of the same name")
        if data.get("version") != version:
            raise InputError(
                f"{path} has version {data.get('version')!r}, and this seqloom reads {version}: update it"
            )
        try:
            return cls._restored(_from_tokenizers(data) if old else data, path.with_suffix(".safetensors"))
        except UnknownNameError:  # a kind of field from outside, which has to be imported
            raise
        except Exception as error:  # the library of tokenizers raises plain Exception
            raise InputError(f"{path} is damaged: {error}; prepare the data again, or copy the file again") from None

    @classmethod
    def _restored(cls, data: Mapping[str, Any], arrays: Path) -> "Fields":
        from safetensors.numpy import load_file

        fields = cls(data["fields"], shared=data["shared"], limits=data["limits"])
        states = {
            name: dict(data["states"]["source" if fields.shared and name == "target" else name]) for name in fields
        }
        for key, value in (load_file(arrays) if arrays.exists() else {}).items():
            name, _, key_of_state = key.partition(".")
            states[name][key_of_state] = value
        for name, field in fields.items():
            field.restore(states[name])
        return fields


def _column(name: str, examples: Iterable[Example]) -> Iterator[Any]:
    for number, example in enumerate(examples):
        if name not in example:
            raise InputError(
                f"example {number} of the training data has no {name!r}, only {', '.join(example)}: give each one, "
                "or name its column by data.columns"
            )
        yield example[name]


def text_specs(source: Spec, target: Spec) -> dict[str, Spec]:
    """The specifications of a source and a target that are text, by their tokenizers."""
    return {"source": {"name": "text", "tokenizer": source}, "target": {"name": "text", "tokenizer": target}}


def _as_target(spec: Spec) -> Spec:
    name, given = split("field", spec)
    return {"name": name, "end": True, **given} if "end" in options(find("field", name)) else spec


def _from_tokenizers(data: Mapping[str, Any]) -> dict[str, Any]:
    """What older versions wrote as what is written today."""
    shared = data["target"] is None
    source, target = data["source"], data["source" if shared else "target"]
    states = {"source": source} if shared else {"source": source, "target": target}
    specs = text_specs(source["spec"], target["spec"])
    return {"fields": specs, "states": states, "shared": shared, "limits": data.get("limits")}

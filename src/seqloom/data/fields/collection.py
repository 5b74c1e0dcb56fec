"""The fields of a run: built from their specifications, fitted on examples, and saved in the run directory."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.examples import SIDES, Example
from seqloom.data.fields.base import Field
from seqloom.data.fields.text import Text
from seqloom.data.pad import Array
from seqloom.errors import ConfigError, InputError, SentenceError, SeqloomError, UnknownNameError
from seqloom.files import write
from seqloom.registry import Spec, build, get_class, options, parse_spec
from seqloom.renames import update_names

FORMAT, VERSION, FILE = "seqloom fields", 2, "fields.json"
OLD_FORMAT, OLD_VERSION, OLD_FILE = "seqloom tokenizers", 1, "tokenizer.json"
"""File of earlier versions, which had no fields other than the tokenizers of source and target."""


class Fields(dict[str, Field]):
    """Fields by name: source, target, and any others.

    specs: specification of each field. The option ``end`` is added to the target's, if its kind has it.
    shared: whether source and target share one tokenizer, trained on both: a joint vocabulary.
    limits: maximum lengths in the training data, in steps: ``source``, ``target``, and ``ratio``, the maximum number
        of target steps per source step. None in files of earlier versions.
    """

    def __init__(
        self, specs: Mapping[str, Spec], *, shared: bool = False, limits: Mapping[str, float] | None = None
    ) -> None:
        self.specs = {name: _as_target(spec) if name == "target" else spec for name, spec in specs.items()}
        self.shared, self.limits = shared, limits
        super().__init__({name: build("field", spec) for name, spec in self.specs.items()})
        if shared:
            sides = [self[side] for side in SIDES]
            tokenizers = [field.trainer.spec for field in sides if isinstance(field, Text)]
            if len(tokenizers) < len(SIDES):
                raise ConfigError("data.share_vocabulary requires source and target to be text fields: remove it")
            if tokenizers[0] != tokenizers[1]:
                raise ConfigError(
                    f"data.share_vocabulary requires equal tokenizers, but source has {tokenizers[0]} and target has "
                    f"{tokenizers[1]}"
                )

    def fit(self, examples: Callable[[], Iterable[Example]]) -> "Fields":
        """Fit all fields on examples, which are read once per field and not kept."""
        for name, field in self.items():
            if not self.shared or name not in SIDES:
                field.fit(_column(name, examples()))
        if self.shared:
            self["source"].fit(example[side] for example in examples() for side in SIDES)
            self["target"].restore(self["source"].state())
        return self

    def encode(self, name: str, examples: Sequence[Mapping[str, Any]]) -> list[Array]:
        """Encode one column of some examples as arrays; errors give the number of the example."""
        for number, example in enumerate(examples):
            if name not in example:
                raise SentenceError(
                    f"it has no {name!r}, which the model requires, only {', '.join(example)}", number
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
        """Whether all fields encode every value identically."""
        return self.keys() == other.keys() and all(field.same(other[name]) for name, field in self.items())

    def save(self, folder: Path) -> None:
        """Save all fields in a directory, as JSON and, for arrays, safetensors."""
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
        """Load fields saved by ``save``, or tokenizers saved by an earlier version."""
        old = not (folder / FILE).exists() and (folder / OLD_FILE).exists()
        path = folder / (OLD_FILE if old else FILE)
        file_format, version = (OLD_FORMAT, OLD_VERSION) if old else (FORMAT, VERSION)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error}): prepare the data again, or copy the file again") from None
        if not isinstance(data, dict) or data.get("format") != file_format:
            raise InputError(f"{path} is not a {file_format} file; another tool may have written it")
        if data.get("version") not in range(1, version + 1):
            raise InputError(
                f"{path} has version {data.get('version')!r}, but this seqloom supports versions up to {version}: "
                "update seqloom"
            )
        try:
            data = _from_tokenizers(data) if old else data
            return cls._restored(
                _with_current_names(data) if old or data["version"] < VERSION else data,
                path.with_suffix(".safetensors"),
            )
        except UnknownNameError:  # an external kind of field, whose module must be imported first
            raise
        except Exception as error:  # the tokenizers library raises plain Exception
            raise InputError(f"{path} is damaged ({error}): prepare the data again, or copy the file again") from None

    @classmethod
    def _restored(cls, data: Mapping[str, Any], arrays: Path) -> "Fields":
        from safetensors.numpy import load_file

        fields = cls(data["fields"], shared=data["shared"], limits=data["limits"])
        states = {
            name: dict(data["states"]["source" if fields.shared and name == "target" else name]) for name in fields
        }
        for path, value in (load_file(arrays) if arrays.exists() else {}).items():
            name, _, key = path.partition(".")
            states[name][key] = value
        for name, field in fields.items():
            field.restore(states[name])
        return fields


def _column(name: str, examples: Iterable[Example]) -> Iterator[Any]:
    for number, example in enumerate(examples):
        if name not in example:
            raise InputError(
                f"example {number} of the training data has no {name!r}, only {', '.join(example)}: add it to every "
                "example, or set its column in data.columns"
            )
        yield example[name]


def text_specs(source: Spec, target: Spec) -> dict[str, Spec]:
    """Specifications of two text fields, source and target, with these tokenizers."""
    return {"source": {"name": "text", "tokenizer": source}, "target": {"name": "text", "tokenizer": target}}


def _as_target(spec: Spec) -> Spec:
    name, given = parse_spec("field", spec)
    return {"name": name, "end": True, **given} if "end" in options(get_class("field", name)) else spec


def _with_current_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Saved data of an earlier version, with the current names of parts and options."""
    fields, _ = update_names(data["fields"], "data.fields")
    states = {
        name: {**state, "spec": update_names({"tokenizer": state["spec"]})[0]["tokenizer"]}
        if "spec" in state
        else state
        for name, state in data["states"].items()
    }
    return {**data, "fields": fields, "states": states}


def _from_tokenizers(data: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer file of an earlier version in the current format."""
    shared = data["target"] is None
    source, target = data["source"], data["source" if shared else "target"]
    states = {"source": source} if shared else {"source": source, "target": target}
    specs = text_specs(source["spec"], target["spec"])
    return {"fields": specs, "states": states, "shared": shared, "limits": data.get("limits")}

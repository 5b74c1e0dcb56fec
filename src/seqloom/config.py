"""A run's configuration: what there is to set, from YAML, from ``--set a.b=value``, and back to YAML.

A field that is null is chosen to suit the data when a run begins; the run's own ``config.yaml`` then holds what was
chosen.
"""

import io
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from seqloom.data.readers.columns import columns_of
from seqloom.errors import OptionError, unknown
from seqloom.merge import by_path, merge
from seqloom.registry import Count, Natural, Share

PartSpec = str | dict[str, Any]
Positive = Annotated[float, Field(gt=0)]
WHOLE = {"size", "dropout"}
"""What is said of a whole model, for all its parts."""
LIMITS = {"updates", "epochs"}
"""Where training ends, in either unit."""
FILES = {"train", "dev", "format", "columns", "header"}
"""Which files are read, and how; a task has none."""


class Section(BaseModel):
    """Part of a configuration: unknown keys are refused, and what is set later is checked too."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


def option(default: Any, description: str) -> Any:
    """A setting: its default, of which everyone gets a copy, and what it means."""
    return Field(default_factory=lambda: deepcopy(default), description=description)


class DataConfig(Section):
    """Where the pairs are, and how text becomes tokens."""

    task: PartSpec | None = option(None, "a task to train on instead of files (seqloom tasks)")
    train: list[str] | None = option(None, "one file of pairs, line-aligned files, or a prepared folder")
    dev: list[str] | None = option(None, "the same, to judge by; null: a part of train is held out")
    format: str | None = option(None, "a reader (seqloom parts reader); null: from the name")
    columns: list[str | int] | dict[str, str | int | list[str | int]] | None = option(
        None, "[0, 2], or {source: lemma, target: form}: where they are in a file of pairs"
    )
    header: bool = option(False, "whether a TSV's first line names its columns")
    empty: Literal["skip", "refuse"] = option("skip", "what to do with a pair that has an empty side")
    max_length: Count = option(250, "in tokens; training pairs with a longer side are left out")
    source: PartSpec | None = option(None, "the tokenizer of the source (seqloom parts tokenizer)")
    target: PartSpec | None = option(None, "the tokenizer of the target")
    shared: bool = option(False, "one tokenizer, trained on both sides")
    fields: dict[str, PartSpec] = option(
        {}, "further fields, or other kinds of source and target: {tags: {name: text, …}} (seqloom parts field)"
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _are_columns(cls, columns: Any) -> Any:
        columns_of(columns)
        return columns


class TrainConfig(Section):
    """How a model is trained."""

    updates: Count | None = option(None, "how many steps of the optimiser at most")
    epochs: Count | None = option(None, "how many times through the data at most")
    batch_tokens: Count | None = option(None, "the padded size of a batch, on its longer side; or …")
    batch_sentences: Count | None = option(None, "… how many pairs are in it")
    batcher: PartSpec = option("bucketed", "which examples go together (seqloom parts batcher)")
    accumulate: Count = option(1, "batches to an update; the loss is the mean over all their tokens")
    optimiser: PartSpec | None = option(None, "seqloom parts optimiser")
    schedule: PartSpec | None = option(None, "of the learning rate (seqloom parts schedule)")
    clip: Annotated[float, Field(ge=0)] = option(1.0, "the gradient's largest norm; 0: any")
    objective: PartSpec | None = option(None, "how a batch becomes a loss; null: teacher forcing, or train.sampling")
    sampling: PartSpec | None = option(None, "scheduled sampling; null: teacher forcing throughout")
    metric: PartSpec | None = option(None, "decides on dev what is best (seqloom parts metric)")
    evaluate_every: Count | None = option(None, "updates between two evaluations on dev")
    patience: Natural | None = option(None, "evaluations without a new best before stopping; 0: any")
    keep: Count | None = option(None, "how many of the best weights are kept, and averaged at the end")
    moving_average: Share = option(0.99, "decay of an average of the weights, which is judged and kept; 0: none")
    precision: Literal["float32", "bfloat16"] = option("float32", "bfloat16: autocast where it is safe")
    compile: bool = option(False, "torch.compile; wants a C++ compiler")
    device: str = option("auto", "cpu, cuda, …; auto: the best that is there")
    log_every: Count = option(50, "updates between two lines in metrics.jsonl")
    checkpoint_seconds: Positive = option(60.0, "work that a crash may cost; no result depends on it")
    tensorboard: bool = option(False, "events for TensorBoard (pip install 'seqloom[tensorboard]')")


DEFAULT_SEARCH = {"name": "beam", "width": 5}


class Config(Section):
    """A run."""

    seed: Natural = option(1, "of everything random")
    model: dict[str, Any] = option({}, "preset, size, dropout, and any part of the model")
    data: DataConfig = option(DataConfig(), "text")
    train: TrainConfig = option(TrainConfig(), "training")
    search: PartSpec = option(
        DEFAULT_SEARCH,
        "how answers are found after training (seqloom parts search); dev is judged greedily",
    )

    @field_validator("search", mode="before")
    @classmethod
    def _of_the_default(cls, search: Any) -> Any:
        """Options without a name are the default's."""
        return {**DEFAULT_SEARCH, **search} if isinstance(search, Mapping) and "name" not in search else search


def make_config(*layers: Mapping[str, Any]) -> Config:
    """A configuration from nested mappings, the later ones on top: what is said later wins."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(overruled(merged, layer), layer)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise _for_the_person(error) from None


def overruled(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What is ``below`` without all that would keep from working what is said ``above`` by another name."""
    kept = dict(below)
    for section, rest in (("model", _rest_of_model), ("data", _rest_of_data), ("train", _rest_of_train)):
        there, said = below.get(section), above.get(section)
        if isinstance(there, Mapping) and isinstance(said, Mapping):
            kept[section] = rest(there, {key for key, value in said.items() if value is not None})
    return kept


def _rest_of_model(model: Mapping[str, Any], said: set[str]) -> Mapping[str, Any]:
    """Of a whole description a preset leaves nothing; a size or dropout for all parts, none that is a part's own."""
    if "model" not in model:  # no whole description: what it sets is meant for any preset
        return model
    if "preset" in said:
        return {key: value for key, value in model.items() if key in WHOLE}
    if not said & WHOLE:
        return model
    return {
        part: {key: value for key, value in spec.items() if key not in said & WHOLE}
        if isinstance(spec, Mapping) and "name" in spec
        else spec
        for part, spec in model.items()
    }


def _rest_of_data(data: Mapping[str, Any], said: set[str]) -> Mapping[str, Any]:
    """A task replaces files, and files to train on replace a task."""
    gone = (FILES if "task" in said else set()) | ({"task"} if "train" in said else set())
    return {key: value for key, value in data.items() if key not in gone}


def _rest_of_train(train: Mapping[str, Any], said: set[str]) -> Mapping[str, Any]:
    """A limit stands for both: a run's configuration has both, and the old one of the other kind would still hold."""
    return {key: value for key, value in train.items() if key not in LIMITS} if said & LIMITS else train


def read_config(path: Path) -> dict[str, Any]:
    """A configuration file as a mapping."""
    try:
        loaded = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OptionError(f"{path} does not exist; seqloom config prints a configuration to begin with") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise OptionError(f"{path} can't be read: {error.strerror}") from None
    if loaded is not None and not isinstance(loaded, dict):
        raise OptionError(f"{path} holds no settings, but {type(loaded).__name__}: write key: value")
    return loaded or {}


def settings(assignments: Iterable[str]) -> dict[str, Any]:
    """``["a.b=1", "c=[x, y]"]`` as nested mappings; values are YAML."""
    merged: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise OptionError(f"--set {assignment}: write it as path=value, for example model.encoder.layers=2")
        try:
            value = YAML(typ="safe").load(text)
        except YAMLError:
            raise OptionError(f"--set {path}: {text!r} is not a value in YAML") from None
        merged = merge(merged, by_path({path: value}))
    return merged


def to_yaml(value: Any, *, on_one_line: bool = False) -> str:
    """Plain data as YAML, in the order it has; ``on_one_line`` as ``[a, b]``, however long."""
    yaml = YAML()
    yaml.default_flow_style = on_one_line
    yaml.width = sys.maxsize if on_one_line else 118
    yaml.allow_unicode = True
    text = io.StringIO()
    yaml.dump(value, text)
    return text.getvalue()


def _for_the_person(error: ValidationError) -> OptionError:
    first = error.errors()[0]
    *way, key = [str(part) for part in first["loc"]] or [""]
    if first["type"] == "extra_forbidden":
        section: type[BaseModel] = Config
        for step in way:
            inner = section.model_fields[step].annotation
            assert isinstance(inner, type)
            section = inner
        where = ".".join(way)
        problem = unknown(f"setting{f' of {where}' if where else ''}:", key, section.model_fields)
        return OptionError(str(problem))
    path = ".".join(str(part) for part in first["loc"] if part not in ("str", "dict[str,any]", "list[str]"))
    return OptionError(f"{path}={first['input']!r} does not do: {first['msg']}")

"""The configuration of a run: its options, and reading and writing it as YAML.

Options that are null are chosen to fit the data when training starts; ``config.yaml`` in the run folder holds the
resolved values.
"""

import io
import sys
import warnings
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from seqloom.data.readers.columns import parse_columns
from seqloom.errors import ConfigError, requirement, unknown
from seqloom.merge import by_path, merge
from seqloom.registry import Fraction
from seqloom.renames import update_names

PartSpec = str | dict[str, Any]
WHOLE_MODEL_OPTIONS = {"hidden_size", "dropout"}
"""Options of the model that apply to all its parts."""
TRAINING_LIMITS = {"updates", "epochs"}
"""Options that end training."""
FILE_OPTIONS = {"train", "dev", "format", "columns", "header"}
"""Options of the data that describe files; they don't apply to a task."""


class Section(BaseModel):
    """A section of the configuration: unknown keys are errors, and assignments are validated too."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


def option(default: Any, description: str) -> Any:
    """An option with a default, which is copied, and a description."""
    return Field(default_factory=lambda: deepcopy(default), description=description)


class DataConfig(Section):
    """The training and validation data, and how text is tokenized."""

    task: PartSpec | None = option(None, "generated task to train on instead of files (seqloom tasks)")
    train: list[str] | None = option(
        None, "training data: one file of pairs, line-aligned files, or a prepared corpus"
    )
    dev: list[str] | None = option(
        None, "validation data, in the same form; null holds out a part of the training data"
    )
    format: str | None = option(None, "file format (seqloom parts reader); null detects it from the file name")
    columns: list[str | int] | dict[str, str | int | list[str | int]] | None = option(
        None, "columns to read, by name or number from 0: [0, 2] or {source: lemma, target: form}"
    )
    header: bool = option(False, "true if the first line of a TSV file holds column names")
    on_empty: Literal["skip", "error"] = option(
        "skip", "what to do with a pair that has an empty side: skip or error"
    )
    max_length: PositiveInt = option(250, "maximum length in tokens; longer training pairs are skipped")
    source_tokenizer: PartSpec | None = option(
        None, "tokenizer of the source (seqloom parts tokenizer); null chooses one that fits the text"
    )
    target_tokenizer: PartSpec | None = option(None, "tokenizer of the target; null chooses one that fits the text")
    share_vocabulary: bool = option(False, "train one joint tokenizer on source and target")
    fields: dict[str, PartSpec] = option(
        {}, "additional fields, or other kinds of source and target: {tags: {name: text, …}} (seqloom parts field)"
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _are_columns(cls, columns: Any) -> Any:
        parse_columns(columns)
        return columns


class TrainConfig(Section):
    """Training: length, batches, optimizer, validation and checkpoints."""

    updates: PositiveInt | None = option(None, "maximum number of updates (optimizer steps)")
    epochs: PositiveInt | None = option(None, "maximum number of epochs (passes through the training data)")
    batch_tokens: PositiveInt | None = option(
        None, "batch size in tokens, padding included, counted on the longer side; set this or batch_sentences"
    )
    batch_sentences: PositiveInt | None = option(None, "batch size in sentence pairs; set this or batch_tokens")
    batcher: PartSpec = option("bucketed", "how examples are grouped into batches (seqloom parts batcher)")
    gradient_accumulation_steps: PositiveInt = option(
        1, "batches per update; the loss is averaged over all their tokens"
    )
    optimizer: PartSpec | None = option(None, "optimizer (seqloom parts optimizer); null chooses Adam")
    schedule: PartSpec | None = option(
        None, "learning rate schedule (seqloom parts schedule); null chooses cosine with warmup"
    )
    clip_grad_norm: Annotated[float, Field(ge=0)] = option(1.0, "maximum gradient norm; 0 disables clipping")
    objective: PartSpec | None = option(
        None, "training objective (seqloom parts objective); null is teacher forcing, or scheduled_sampling if set"
    )
    scheduled_sampling: PartSpec | None = option(
        None, "scheduled sampling (seqloom parts scheduled_sampling); null is teacher forcing"
    )
    validation_metric: PartSpec | None = option(
        None, "metric that selects the best checkpoint (seqloom parts metric); null chooses one that fits the data"
    )
    evaluate_every: PositiveInt | None = option(None, "updates between validations; null: about one per epoch")
    patience: NonNegativeInt | None = option(
        None, "stop after this many validations without improvement; 0 disables early stopping"
    )
    keep_best_checkpoints: PositiveInt | None = option(
        None, "number of best checkpoints to keep; they are averaged when training ends"
    )
    ema_decay: Fraction = option(
        0.99, "decay of the exponential moving average (EMA) of the weights that is validated and kept; 0 disables it"
    )
    precision: Literal["float32", "bfloat16"] = option("float32", "float32, or bfloat16 (mixed precision, autocast)")
    compile: bool = option(False, "compile the model with torch.compile; needs a C++ compiler")
    device: str = option("auto", "cpu, cuda, …; auto selects an accelerator if there is one")
    log_every: PositiveInt = option(50, "updates between two lines in metrics.jsonl")
    checkpoint_seconds: PositiveFloat = option(
        60.0, "seconds between checkpoints: the work that a crash can cost; results don't depend on it"
    )
    tensorboard: bool = option(False, "write TensorBoard events (pip install 'seqloom[tensorboard]')")


DEFAULT_SEARCH = {"name": "beam", "beam_size": 5}


class Config(Section):
    """The configuration of a run."""

    seed: NonNegativeInt = option(1, "random seed")
    model: dict[str, Any] = option({}, "preset, hidden_size, dropout, and the parts of the model")
    data: DataConfig = option(DataConfig(), "training and validation data")
    train: TrainConfig = option(TrainConfig(), "training")
    search: PartSpec = option(
        DEFAULT_SEARCH,
        "decoding strategy after training (seqloom parts search); validation is greedy",
    )

    @field_validator("search", mode="before")
    @classmethod
    def _fill_in_name(cls, search: Any) -> Any:
        """Options without a name are those of the default search."""
        return {**DEFAULT_SEARCH, **search} if isinstance(search, Mapping) and "name" not in search else search


def make_config(*layers: Mapping[str, Any]) -> Config:
    """A configuration from nested mappings; later ones override earlier ones."""
    merged: dict[str, Any] = {}
    for original in layers:
        layer, renamed = update_names(original)
        if renamed:
            warnings.warn(
                f"options were renamed since an earlier version: {'; '.join(renamed)}", FutureWarning, stacklevel=2
            )
        merged = merge(drop_overridden(merged, layer), layer)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise _config_error(error) from None


def drop_overridden(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` without the options that ``override`` replaces under another name."""
    kept = dict(base)
    for section, drop in (("model", _drop_from_model), ("data", _drop_from_data), ("train", _drop_from_train)):
        options, new = base.get(section), override.get(section)
        if isinstance(options, Mapping) and isinstance(new, Mapping):
            kept[section] = drop(options, {key for key, value in new.items() if value is not None})
    return kept


def _drop_from_model(model: Mapping[str, Any], new: set[str]) -> Mapping[str, Any]:
    """A preset replaces a complete model; a size or dropout of the whole model replaces those of its parts."""
    if "type" not in model:  # not a complete model: its options apply to any preset
        return model
    if "preset" in new:
        return {key: value for key, value in model.items() if key in WHOLE_MODEL_OPTIONS}
    replaced = new & WHOLE_MODEL_OPTIONS | ({"embedding_size"} if "hidden_size" in new else set())
    if not replaced:
        return model
    return {
        part: {key: value for key, value in spec.items() if key not in replaced}
        if isinstance(spec, Mapping) and "name" in spec
        else spec
        for part, spec in model.items()
    }


def _drop_from_data(data: Mapping[str, Any], new: set[str]) -> Mapping[str, Any]:
    """A task replaces files, and training files replace a task."""
    dropped = (FILE_OPTIONS if "task" in new else set()) | ({"task"} if "train" in new else set())
    return {key: value for key, value in data.items() if key not in dropped}


def _drop_from_train(train: Mapping[str, Any], new: set[str]) -> Mapping[str, Any]:
    """A new limit replaces both limits: a resolved configuration has both, and the other one would still apply."""
    return {key: value for key, value in train.items() if not (new & TRAINING_LIMITS and key in TRAINING_LIMITS)}


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration file as a mapping."""
    try:
        loaded = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: seqloom config prints a configuration to start from") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    if loaded is not None and not isinstance(loaded, dict):
        raise ConfigError(f"{path} must contain a mapping (key: value), not a {type(loaded).__name__}")
    return loaded or {}


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse ``--set`` assignments such as ``["a.b=1", "c=[x, y]"]`` into nested mappings; values are YAML."""
    merged: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise ConfigError(f"--set {assignment} is invalid: write path=value, for example model.encoder.layers=2")
        try:
            value = YAML(typ="safe").load(text)
        except YAMLError:
            raise ConfigError(f"--set {path}: {text!r} is not valid YAML") from None
        merged = merge(merged, by_path({path: value}))
    return merged


def to_yaml(value: Any, *, on_one_line: bool = False) -> str:
    """Data as YAML, in its own order; with ``on_one_line`` in flow style on a single line."""
    yaml = YAML()
    yaml.default_flow_style = on_one_line
    yaml.width = sys.maxsize if on_one_line else 118
    yaml.allow_unicode = True
    text = io.StringIO()
    yaml.dump(value, text)
    return text.getvalue()


def _config_error(error: ValidationError) -> ConfigError:
    """The first error of pydantic, as a message for users."""
    errors = error.errors()
    first = errors[0]
    *parents, key = [str(part) for part in first["loc"]] or [""]
    if first["type"] == "extra_forbidden":
        section: type[BaseModel] = Config
        for name in parents:
            inner = section.model_fields[name].annotation
            assert isinstance(inner, type)
            section = inner
        where = ".".join(parents)
        problem = unknown(f"setting{f' of {where}' if where else ''}:", key, section.model_fields)
        return ConfigError(str(problem))
    path = _option_path(first["loc"])
    required = requirement(e["msg"] for e in errors if _option_path(e["loc"]) == path)
    return ConfigError(f"{path}={first['input']!r} is invalid: {required}")


def _option_path(location: Iterable[int | str]) -> str:
    """The path of an option, from the location of an error in pydantic: without the names of types in unions."""
    return ".".join(str(part) for part in location if part not in ("str", "dict[str,any]", "list[str]"))

"""Defaults that depend on the data: tokenizers, model size, dropout, batch size, epochs and learning rate schedule.

A small data set needs a small model, high dropout, small batches and many epochs; a large one the opposite. The
values in the table were found by experiments; ``docs/results.md`` has results with them.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from seqloom.config import WHOLE_MODEL_OPTIONS, Config
from seqloom.data.examples import SIDES, Example
from seqloom.data.texts import TextStatistics, copies_words
from seqloom.errors import ConfigError, SeqloomError
from seqloom.merge import merge
from seqloom.models.build import DEFAULT, check_wiring
from seqloom.models.decoders import Decoder
from seqloom.models.describe import complete, fields_read, part_classes
from seqloom.presets import load_preset
from seqloom.registry import build, get_class

PRESET = "recurrent"
SAMPLE_PAIRS = 2000
"""Number of pairs that are inspected to choose tokenizers."""
PLACEHOLDER_UPDATES = 10**9
"""Number of updates for checking a schedule before the real number is known."""
PLACEHOLDER_SIZE = 8
"""Vocabulary size for checking a model before the data is prepared."""
DECOMPOSED = {"name": "character", "normalize": "nfd"}
"""Characters in NFD: base letters and diacritics are separate tokens, and Hangul syllables are split into letters.
This gives so few tokens that all of them occur even in little data."""
DEFAULT_PARTS = {"optimizer": {"name": "adam"}, "schedule": {"name": "cosine"}}
"""The parts that are used if options are set without a name."""


class SizeDefaults(NamedTuple):
    """Defaults for data sets of up to ``pairs`` training pairs; ``size`` is the hidden size."""

    pairs: float
    size: int
    dropout: float
    batch_sentences: int | None
    batch_tokens: int | None
    epochs: int
    lr: float


TABLE = [
    SizeDefaults(500, 64, 0.3, 4, None, 80, 3e-3),
    SizeDefaults(3_000, 128, 0.4, 8, None, 30, 2e-3),
    SizeDefaults(15_000, 256, 0.3, 64, None, 15, 2e-3),
    SizeDefaults(60_000, 256, 0.3, 64, None, 12, 2e-3),
    SizeDefaults(300_000, 384, 0.2, None, 3000, 16, 1e-3),
    SizeDefaults(2_000_000, 512, 0.1, None, 4096, 8, 1e-3),
    SizeDefaults(math.inf, 512, 0.1, None, 8192, 3, 1e-3),
]


def defaults_for_size(pairs: int) -> SizeDefaults:
    """The row of the table for a number of training pairs."""
    return next(row for row in TABLE if pairs <= row.pairs)


def choose_tokenizers(config: Config, examples: Iterable[Example], dev: Iterable[Example] = ()) -> list[str]:
    """Choose tokenizers that are not set, by inspecting some pairs; returns messages about the choices.

    dev: validation examples; a vocabulary counts as closed only if it contains their words too.
    """
    data, messages = config.data, []
    for side in SIDES:
        if side in data.fields and getattr(data, f"{side}_tokenizer") is not None:
            raise ConfigError(
                f"data.{side}_tokenizer and data.fields.{side} both set the {side} tokenizer: remove one of them"
            )
    sample = list(islice(examples, SAMPLE_PAIRS))
    if not sample:
        raise ConfigError("the training data has no pairs")
    others = list(islice(dev, SAMPLE_PAIRS))
    texts = {side: [e[side] for e in sample] for side in SIDES if side not in data.fields}
    kinds = {side: TextStatistics.of(text, [e[side] for e in others]).tokenizer for side, text in texts.items()}
    if list(kinds.values()) == ["bpe", "bpe"] and copies_words(texts["source"], texts["target"]):
        kinds = dict.fromkeys(kinds, "character")
    if data.share_vocabulary and kinds:
        same = len(set(kinds.values())) == 1
        joint = data.source_tokenizer or data.target_tokenizer or (next(iter(kinds.values())) if same else "bpe")
        for side in kinds:  # two different tokenizers are an error later
            setattr(data, f"{side}_tokenizer", getattr(data, f"{side}_tokenizer") or joint)
    for side, kind in kinds.items():
        if getattr(data, f"{side}_tokenizer") is None:
            chosen = DECOMPOSED if (side, kind) == ("source", "character") else kind
            setattr(data, f"{side}_tokenizer", chosen)
            messages.append(f"{side}: tokenizer {kind}{', decomposed (NFD)' if chosen is DECOMPOSED else ''}")
    return messages


def model_description(config: Config) -> dict[str, Any]:
    """The parts of the model in a configuration: its preset, with the overrides applied."""
    given = {key: value for key, value in config.model.items() if key not in {"preset", *WHOLE_MODEL_OPTIONS}}
    preset = config.model.get("preset", None if "type" in given else PRESET)  # with a type, it is complete
    if preset and "type" in given:
        raise ConfigError(
            f"model.preset={preset} and model.type can't both be set, since model.type marks a complete model: "
            "remove one of them"
        )
    description = merge(load_preset(preset) if preset else {}, given)
    base: dict[str, Any] = {"hidden_size": 1, "dropout": 0.0}
    for option, other in (("hidden_size", 2), ("dropout", 0.5)):
        value = config.model.get(option)
        if value is not None and complete(description, **base) == complete(description, **base | {option: other}):
            raise ConfigError(
                f"model.{option}={value} has no effect, because every part sets its own {option}: remove those "
                f"values, or change them, for example model.decoder.{option}"
            )
    return description


def check_model(config: Config) -> None:
    """Check that the model can be built, before the data is prepared, which can take long."""
    description = model_description(config)
    kind = str(description.get("type", DEFAULT))
    if not get_class("model", kind).has_source:  # type: ignore[attr-defined]
        raise ConfigError(
            f"model {kind!r} has no source, but training needs source–target pairs: use encoder_decoder"
        )
    complete(description, hidden_size=1, dropout=0.0)
    size = config.model.get("hidden_size")
    fields = dict.fromkeys((*SIDES, *fields_read(description)), PLACEHOLDER_SIZE)
    sizes = dict.fromkeys(row.size for row in TABLE) if size is None else [size]
    errors = [_wiring_error(description, fields, size) for size in sizes]
    if all(errors):  # the size is chosen later, so one valid size is enough
        raise errors[-1]  # type: ignore[misc]


def _wiring_error(description: Mapping[str, Any], fields: Mapping[str, int], size: int) -> SeqloomError | None:
    """The error of a model whose parts don't fit together at a hidden size."""
    try:
        check_wiring(description, fields=fields, hidden_size=size)
    except SeqloomError as error:
        return error
    return None


def check_parts(config: Config) -> None:
    """Check the parts of training and search, before the data is prepared."""
    build("search", config.search)
    arguments = {"schedule": (config.train.updates or PLACEHOLDER_UPDATES,)}
    for kind in ("optimizer", "schedule", "objective", "scheduled_sampling", "metric"):
        spec = getattr(config.train, "validation_metric" if kind == "metric" else kind)
        if spec is not None:
            build(kind, {**DEFAULT_PARTS.get(kind, {}), **_mapping(spec)}, *arguments.get(kind, ()))


def choose_for_size(config: Config, pairs: int) -> list[str]:
    """Set unset options that depend on the number of training pairs; returns messages about the choices."""
    row = defaults_for_size(pairs)
    messages: list[str] = []
    description = model_description(config)
    if not {"preset", "type"} & config.model.keys():
        messages.append(f"preset {PRESET}")
    size, dropout = config.model.get("hidden_size"), config.model.get("dropout")
    if size is None:
        size = row.size
        messages.append(f"hidden size {size}")
    if dropout is None:
        dropout = row.dropout
        messages.append(f"dropout {dropout}")
    config.model = complete(description, hidden_size=size, dropout=dropout)

    train = config.train
    if train.batch_tokens is None and train.batch_sentences is None:
        train.batch_tokens, train.batch_sentences = row.batch_tokens, row.batch_sentences
        unit = "sentences" if row.batch_sentences else "tokens"
        messages.append(f"batch size {row.batch_sentences or row.batch_tokens} {unit}")
    if train.updates is None and train.epochs is None:
        train.epochs = row.epochs
        messages.append(f"{row.epochs} epochs")
    if train.optimizer is None or "name" not in _mapping(train.optimizer):
        defaults = {"lr": row.lr, **decoder_class(config).adam}
        train.optimizer = {**DEFAULT_PARTS["optimizer"], **defaults, **_mapping(train.optimizer)}
        messages.append(f"Adam with learning rate {train.optimizer['lr']}")
    train.patience = train.patience or 0
    train.keep_best_checkpoints = train.keep_best_checkpoints or 1
    return messages


def choose_updates(config: Config, batches: int) -> list[str]:
    """Set unset options that depend on the number of batches per epoch; returns messages about the choices."""
    train, messages = config.train, []
    per_epoch = math.ceil(batches / train.gradient_accumulation_steps)
    limits = [n for n in (train.updates, train.epochs and train.epochs * per_epoch) if n]
    if not limits:
        raise ConfigError("training has no limit: set train.updates or train.epochs")
    train.updates = min(limits)
    if train.evaluate_every is None:
        train.evaluate_every = min(max(per_epoch, 100), 2000, train.updates)
        messages.append(f"validation every {train.evaluate_every} updates")
    if train.schedule is None or "name" not in _mapping(train.schedule):
        warmup = min(decoder_class(config).warmup, train.updates // 10)
        train.schedule = {**DEFAULT_PARTS["schedule"], "warmup": warmup, **_mapping(train.schedule)}
        messages.append(f"cosine schedule with {train.schedule['warmup']} warmup updates")
    return messages


def decoder_class(config: Config) -> type[Decoder]:
    """The class of the decoder, which has the defaults of Adam and warmup; ``Decoder`` if the model has none."""
    return next((part for part in part_classes(config.model).values() if issubclass(part, Decoder)), Decoder)


def _mapping(spec: Any) -> dict[str, Any]:
    if spec is None:
        return {}
    return {"name": spec} if isinstance(spec, str) else dict(spec)

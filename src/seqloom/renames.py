"""Migration of old configurations: one table of all renamed keys and values.

``update_names`` converts a configuration written for an earlier version to the current names. Run folders and corpora
of earlier versions are converted with the same table when they are read. A part that has an option of an old name, or
is registered under one, such as a part of your own, keeps it.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from seqloom.errors import ConfigError
from seqloom.registry import KINDS, options, parts

KEYS: dict[str, str] = {
    "data.source": "source_tokenizer",
    "data.target": "target_tokenizer",
    "data.shared": "share_vocabulary",
    "data.empty": "on_empty",
    "*tokenizer.size": "vocab_size",
    "*tokenizer.min_count": "min_frequency",
    "*tokenizer.normalise": "normalize",
    "train.optimiser": "optimizer",
    "train.optimizer.rate": "lr",
    "train.optimizer.epsilon": "eps",
    "train.accumulate": "gradient_accumulation_steps",
    "train.clip": "clip_grad_norm",
    "train.sampling": "scheduled_sampling",
    "train.scheduled_sampling.gold": "teacher_forcing_ratio",
    "train.objective.decay.gold": "teacher_forcing_ratio",
    "train.metric": "validation_metric",
    "train.keep": "keep_best_checkpoints",
    "train.moving_average": "ema_decay",
    "model.model": "type",
    "model.size": "hidden_size",
    "model.source": "source_embedder",
    "model.encoder.size": "hidden_size",
    "model.decoder.size": "hidden_size",
    "model.decoder.attention.size": "hidden_size",
    "model.decoder.attention.score.size": "hidden_size",
    "model.decoder.attention.normaliser": "normalizer",
    "model.*embedder.size": "embedding_size",
    "model.*embedder.noise": "embedding_noise",
    "model.output.size": "embedding_size",
    "model.output.noise": "embedding_noise",
    "model.output.tied": "tie_output_embeddings",
    "model.*coder.feed_forward": "ff_size",
    "model.*coder.norm": "layer_norm",
    "model.*coder.positions": "positional_encoding",
    "model.*coder.positional_encoding.longest": "max_positions",
    "model.*coder.initial": "initial_state",
    "model.*coder.cell.reset": "reset_after",
    "model.decoder.into": "context_input",
    "search.width": "beam_size",
    "search.normalisation": "length_penalty",
    "search.coverage": "coverage_penalty",
    "search.diversity": "diversity_penalty",
    "search.unknown": "allow_unk",
    "search.min_ratio": "min_length_ratio",
    "search.max_ratio": "max_length_ratio",
}
"""From the path of a key (``*`` matches anything) to its current name; the parent keys have their current names."""

METRICS: dict[str, Any] = {"exact": "exact_match", "wer": "sequence_error_rate", "ser": "per"}
VALUES: dict[str, dict[Any, Any]] = {
    "data.on_empty": {"refuse": "error"},
    "*tokenizer": {"symbols": "whitespace"},
    "model.bridge": {"state": "copy", "perceptron": "dense"},
    "model.*coder.layer_norm": {"before": "pre", "after": "post"},
    "model.*coder.cell.reset_after": {"before": False, "after": True},
    "model.decoder.context_input": {"cell": "first_layer", "above": "second_layer"},
    "model.decoder.attention.normalizer": {"closest": "hard", "exact": "lookup"},
    "train.metric": METRICS,
    "search.metric": METRICS,
    "search": {"diverse": "diverse_beam", "stochastic": "stochastic_beam"},
}
"""From the path of a key to its old values and their current names; for a part, the names of the part. The validation
metric is renamed only under its old key: the current key rejects ``wer`` and ``ser``, which have other meanings
elsewhere. ``search.metric`` kept its key, so its old values are renamed with a warning."""


def update_names(settings: Mapping[str, Any], path: str = "") -> tuple[dict[str, Any], list[str]]:
    """Settings under their current names, and a list of the renames as ``old → new``.

    path: path of the settings in the configuration, such as ``data.fields``.
    """
    updated: dict[str, Any] = {}
    renamed: list[str] = []
    for key, value in settings.items():
        old = f"{path}.{key}" if path else key
        name = _lookup(KEYS, old) or key
        if name != key and _has_option(path, settings, key):
            name = key
        current = f"{path}.{name}" if path else name
        new = _update_value(old, current, value)
        if name != key:
            renamed.append(f"{old} → {current}")
        if new != value:
            renamed.append(f"{current}: {_name(value)} → {_name(new)}")
        if isinstance(new, Mapping):
            new, inner = update_names(new, current)
            renamed += inner
        updated[name] = _joined(updated[name], new, current) if name in updated else new
    return updated, renamed


def _has_option(path: str, settings: Mapping[str, Any], option: str) -> bool:
    """Whether the part that the settings describe has an option of this name."""
    kind, name = _kind(path), settings.get("name")
    return kind is not None and name in parts(kind) and option in options(parts(kind)[name])


def _kind(path: str) -> str | None:
    """The kind of part at a path: ``model.encoder`` is an encoder, ``data.source_tokenizer`` a tokenizer."""
    key = path.rpartition(".")[2]
    return next((kind for kind in (key, key.rpartition("_")[2]) if kind in KINDS), None)


def _joined(first: Any, second: Any, current: str) -> Any:
    """The options of a part that were set partly under an old and partly under the current name."""
    if isinstance(first, Mapping) and isinstance(second, Mapping) and not first.keys() & second.keys():
        return {**first, **second}
    raise ConfigError(f"{current} is set twice, once by its former name: remove one of them")


def _update_value(old: str, current: str, value: Any) -> Any:
    """The current name of a value; a part is a name, or a mapping with ``name`` and options."""
    values = _lookup(VALUES, old) or _lookup(VALUES, current) or {}
    name = _name(value)
    kind = _kind(current)
    if not isinstance(name, str) or name not in values or (kind is not None and name in parts(kind)):
        return value
    if not isinstance(value, Mapping):
        return values[name]
    options = {option: v for option, v in value.items() if option not in ("name", "unit")}
    by_character = name == "ser" and value.get("unit") == "character"
    return {"name": "cer" if by_character else values[name], **options}


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, Mapping) else value


def _lookup(table: Mapping[str, Any], path: str) -> Any:
    return next((new for pattern, new in table.items() if fnmatchcase(path, pattern)), None)

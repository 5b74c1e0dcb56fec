"""Builds a model from a preset or a description."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seqloom.errors import ConfigError
from seqloom.merge import by_path, merge
from seqloom.models.base import Autoregressive
from seqloom.presets import load_preset
from seqloom.registry import get_class, options, parse_spec, part_options, validate_options

DEFAULT = "encoder_decoder"
"""The type of a model whose description sets none."""


def build_model(
    description: str | Mapping[str, Any],
    *,
    sizes: Mapping[str, int],
    hidden_size: int = 256,
    dropout: float | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Autoregressive:
    """Build a model from the name of a preset, or from a description.

    description: the name of a preset, or a mapping with ``type`` (``encoder_decoder`` or ``language_model``) and the
        parts of the model, each by name or with options.
    sizes: the size of every field by name, such as vocabulary sizes: ``{"source": 8000, "target": 8000}``; a language
        model has no source.
    hidden_size: size of hidden states and embeddings of every part that does not set its own.
    dropout: dropout probability of every part that does not set its own; None keeps each part's default.
    overrides: options that replace those of the description, by path:
        ``{"encoder.layers": 2, "decoder.attention.score": "dot"}``.
    """
    described = load_preset(description) if isinstance(description, str) else deepcopy(dict(description))
    overrides = dict(overrides or {})
    kind = str(overrides.pop("type", described.pop("type", DEFAULT)))
    model = get_class("model", kind)
    if "target" not in sizes:
        raise ConfigError(f"a model needs the size of its target: sizes={{'target': …}}, but got {dict(sizes)}")
    for option, parameter in options(model).items():
        described.setdefault(option, deepcopy(parameter.default))
    described = merge(described, by_path(overrides))
    defaults = default_options(hidden_size, dropout)
    for option, part in part_options(model).items():
        described[option] = with_defaults(part, described[option], defaults)
    built: Autoregressive = model(sizes, **validate_options(f"model {kind!r}", model, described))
    return built


def check_wiring(description: Mapping[str, Any], *, fields: Mapping[str, int], hidden_size: int) -> None:
    """Refuse a description whose parts don't fit together, by building it on ``meta``, which allocates no memory."""
    reads_weights = RuntimeError  # raised by a part whose constructor reads the values of its weights
    with torch.device("meta"), _SkipNormalInit(), suppress(reads_weights):
        build_model(description, sizes=fields, hidden_size=hidden_size)


class _SkipNormalInit(TorchFunctionMode):
    """Skips normal initialization, which has no effect on ``meta`` but makes PyTorch import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def default_options(hidden_size: int, dropout: float | None) -> dict[str, Any]:
    """The options that a model sets for all of its parts."""
    sizes = {"hidden_size": hidden_size, "embedding_size": hidden_size}
    return sizes if dropout is None else {**sizes, "dropout": dropout}


def with_defaults(kind: str, spec: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A part's specification, with ``defaults`` for the options that it has but does not set."""
    name, given = parse_spec(kind, spec)
    known = options(get_class(kind, name))
    return {"name": name, **{option: value for option, value in defaults.items() if option in known}, **given}

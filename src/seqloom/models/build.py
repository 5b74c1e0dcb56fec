"""From a preset or a description to a model."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seqloom.errors import OptionError
from seqloom.merge import by_path, merge
from seqloom.models.base import Autoregressive
from seqloom.presets import load_preset
from seqloom.registry import check, find, options, part_options, split

DEFAULT = "encoder_decoder"
"""The kind of model, where a description names none."""


def build_model(
    description: str | Mapping[str, Any],
    *,
    sizes: Mapping[str, int],
    size: int = 256,
    dropout: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Autoregressive:
    """A model from a preset's name, or from a description like one.

    description: the name of a preset, or a mapping with ``model`` (``encoder_decoder`` or ``language_model``) and its
        parts by name or with options.
    sizes: of every field by name: how many symbols a vocabulary has, as in ``{"source": 8000, "target": 8000}``; a
        language model has no source.
    size: of embeddings and hidden states, where nothing else is said.
    dropout: of every part that has such an option, where nothing else is said; None: what is usual for each.
    settings: options to set on top, by path: ``{"encoder.layers": 2, "decoder.attention.score": "dot"}``.
    """
    described = load_preset(description) if isinstance(description, str) else deepcopy(dict(description))
    settings = dict(settings or {})
    kind = str(settings.pop("model", described.pop("model", DEFAULT)))
    model = find("model", kind)
    if "target" not in sizes:
        raise OptionError(f"a model has a target: give sizes={{'target': …}}; given are {', '.join(sizes)}")
    for option, parameter in options(model).items():
        described.setdefault(option, deepcopy(parameter.default))
    described = merge(described, by_path(settings))
    usual = {"size": size} if dropout is None else {"size": size, "dropout": dropout}
    for option, part in part_options(model).items():
        described[option] = adjusted(part, described[option], usual)
    built: Autoregressive = model(sizes, **check(f"model {kind!r}", model, described))
    return built


def check_wiring(description: Mapping[str, Any], *, fields: Mapping[str, int], size: int) -> None:
    """Refuse a description whose parts don't fit together, by building it on ``meta``: without any numbers."""
    cannot_be_tried = RuntimeError  # of a part that reads its own numbers while it is made
    with torch.device("meta"), _Undrawn(), suppress(cannot_be_tried):
        build_model(description, sizes=fields, size=size)


class _Undrawn(TorchFunctionMode):
    """Nothing is drawn from a normal: on ``meta`` that fills nothing, and PyTorch loads its compiler for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def adjusted(kind: str, spec: Any, usual: Mapping[str, Any]) -> dict[str, Any]:
    """A part's specification with the ``usual`` options where the part has them and nothing sets them."""
    name, given = split(kind, spec)
    known = options(find(kind, name))
    return {"name": name, **{option: value for option, value in usual.items() if option in known}, **given}

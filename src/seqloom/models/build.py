"""From a preset or a description to a model."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from seqloom.errors import OptionError, unknown
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.language_model import LanguageModel
from seqloom.presets import load_preset
from seqloom.registry import check, find, options, split

MODELS = {"encoder_decoder": EncoderDecoder, "language_model": LanguageModel}
ADJUSTED = ("source", "encoder", "decoder", "output")


def build_model(
    description: str | Mapping[str, Any],
    *,
    target_vocabulary: int,
    source_vocabulary: int | None = None,
    size: int = 256,
    dropout: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> EncoderDecoder | LanguageModel:
    """A model from a preset's name, or from a description like one.

    description: the name of a preset, or a mapping with ``model`` (``encoder_decoder`` or ``language_model``) and its
        parts by name or with options.
    target_vocabulary, source_vocabulary: how many symbols each side has; a language model has no source.
    size: of embeddings and hidden states, where nothing else is said.
    dropout: of every part that has such an option, where nothing else is said; None: what is usual for each.
    settings: options to set on top, by path: ``{"encoder.layers": 2, "decoder.attention.score": "dot"}``.
    """
    described = load_preset(description) if isinstance(description, str) else deepcopy(dict(description))
    settings = dict(settings or {})
    kind = settings.pop("model", described.pop("model", "encoder_decoder"))
    if kind not in MODELS:
        raise unknown("model", str(kind), MODELS)
    for option, parameter in options(MODELS[kind]).items():
        described.setdefault(option, deepcopy(parameter.default))
    for path, value in settings.items():
        put(described, path, value)
    usual = {"size": size} if dropout is None else {"size": size, "dropout": dropout}
    for part in ADJUSTED:
        if part in described:
            described[part] = adjusted(part, described[part], usual)
    where = f"model {kind!r}"
    if kind == "language_model":
        if source_vocabulary is not None:
            raise OptionError("a language model has no source: leave out source_vocabulary")
        return LanguageModel(target_vocabulary, **check(where, LanguageModel, described))
    if source_vocabulary is None:
        raise OptionError("an encoder–decoder has a source: give source_vocabulary")
    return EncoderDecoder(source_vocabulary, target_vocabulary, **check(where, EncoderDecoder, described))


def put(described: dict[str, Any], path: str, value: Any) -> None:
    """Set ``a.b.c`` in nested mappings; a part that is a mere name becomes a mapping with that name."""
    *way, last = path.split(".")
    for key in way:
        inner = described.get(key)
        described[key] = dict(inner) if isinstance(inner, Mapping) else {} if inner is None else {"name": inner}
        described = described[key]
    described[last] = value


def adjusted(part: str, spec: Any, usual: Mapping[str, Any]) -> dict[str, Any]:
    """A part's specification with the ``usual`` options where the part has them and nothing sets them."""
    name, given = split(part, spec)
    known = options(find(part, name))
    return {"name": name, **{option: value for option, value in usual.items() if option in known}, **given}

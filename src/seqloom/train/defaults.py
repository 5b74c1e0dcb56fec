"""What suits the data, where the person has not said: tokenizers, sizes, regularisation, batches, schedule.

Little data wants a small model, much dropout, small batches and many epochs; much data the opposite. The steps of the
table were found by trying, not by theory: what they reach is in ``docs/results.md``.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from seqloom.config import WHOLE, Config
from seqloom.data.examples import SIDES, Example
from seqloom.data.texts import Kind, copies_words
from seqloom.errors import OptionError, SeqloomError
from seqloom.merge import merge
from seqloom.models.build import DEFAULT, check_wiring
from seqloom.models.decoders import Decoder
from seqloom.models.describe import complete, fields_read, part_classes
from seqloom.presets import load_preset
from seqloom.registry import build, find

PRESET = "recurrent"
LOOKED_AT = 2000
"""How many pairs are looked at to see what kind of text they are."""
MANY = 10**9
TINY = 8
"""The size of fields where the wiring of a model is tried before there are any."""
APART = {"name": "character", "normalise": "nfd"}
"""Letters apart from their marks, syllables of Hangul as letters: so few that little data has shown them all."""
CHOSEN = {"optimiser": {"name": "adam"}, "schedule": {"name": "cosine"}}
"""Parts of training that are chosen where options are set without a name."""


class Suited(NamedTuple):
    """What suits an amount of data: up to so many pairs, …"""

    pairs: float
    size: int
    dropout: float
    batch_sentences: int | None
    batch_tokens: int | None
    epochs: int
    rate: float


TABLE = [
    Suited(500, 64, 0.3, 4, None, 80, 3e-3),
    Suited(3_000, 128, 0.4, 8, None, 30, 2e-3),
    Suited(15_000, 256, 0.3, 64, None, 15, 2e-3),
    Suited(60_000, 256, 0.3, 64, None, 12, 2e-3),
    Suited(300_000, 384, 0.2, None, 3000, 16, 1e-3),
    Suited(2_000_000, 512, 0.1, None, 4096, 8, 1e-3),
    Suited(math.inf, 512, 0.1, None, 8192, 3, 1e-3),
]


def suited_to(pairs: int) -> Suited:
    """The row of the table for so many pairs."""
    return next(row for row in TABLE if pairs <= row.pairs)


def choose_tokenizers(config: Config, examples: Iterable[Example], dev: Iterable[Example] = ()) -> list[str]:
    """Choose the tokenizers that the configuration leaves open, by looking at some pairs; says what was chosen.

    dev: of the validation set, whose words a closed vocabulary has too.
    """
    data, said = config.data, []
    for side in SIDES:
        if side in data.fields and getattr(data, side) is not None:
            raise OptionError(
                f"data.{side} is the tokenizer of a text, and data.fields.{side} sets it too: leave out one"
            )
    looked_at = list(islice(examples, LOOKED_AT))
    if not looked_at:
        raise OptionError("there is no pair to train on")
    others = list(islice(dev, LOOKED_AT))
    texts = {side: [e[side] for e in looked_at] for side in SIDES if side not in data.fields}
    kinds = {side: Kind.of(some, [e[side] for e in others]).tokenizer for side, some in texts.items()}
    if list(kinds.values()) == ["bpe", "bpe"] and copies_words(texts["source"], texts["target"]):
        kinds = dict.fromkeys(kinds, "character")
    if data.shared and kinds:
        alike = len(set(kinds.values())) == 1
        both = data.source or data.target or (next(iter(kinds.values())) if alike else "bpe")
        for side in kinds:
            setattr(data, side, getattr(data, side) or both)  # two that differ are refused later
    for side, kind in kinds.items():
        if getattr(data, side) is None:
            chosen = APART if (side, kind) == ("source", "character") else kind
            setattr(data, side, chosen)
            said.append(f"{side}: tokenizer {kind}{', letters taken apart' if chosen is APART else ''}")
    return said


def model_described(config: Config) -> dict[str, Any]:
    """The parts of the model that a configuration describes: those of its preset, and what is set on top."""
    given = {key: value for key, value in config.model.items() if key not in {"preset", *WHOLE}}
    preset = config.model.get("preset", None if "model" in given else PRESET)  # with model it is a whole description
    if preset and "model" in given:
        raise OptionError(
            f"model.preset={preset} stands beside a whole description, which says model.model: leave out one of them"
        )
    described = merge(load_preset(preset) if preset else {}, given)
    plain: dict[str, Any] = {"size": 1, "dropout": 0.0}
    for option, other in (("size", 2), ("dropout", 0.5)):
        for_all = config.model.get(option)
        if for_all is not None and complete(described, **plain) == complete(described, **plain | {option: other}):
            raise OptionError(
                f"model.{option}={for_all} would change nothing, as all parts that have a {option} set their own: "
                f"leave those out, or change them, for example model.decoder.{option}"
            )
    return described


def check_model(config: Config) -> None:
    """Refuse a model that can't be made before the data is compiled, which may take long."""
    described = model_described(config)
    kind = str(described.get("model", DEFAULT))
    if not find("model", kind).has_source:  # type: ignore[attr-defined]
        raise OptionError(f"model {kind!r} has no source, and training wants pairs: choose encoder_decoder")
    complete(described, size=1, dropout=0.0)
    size = config.model.get("size")
    fields = dict.fromkeys((*SIDES, *fields_read(described)), TINY)
    sizes = dict.fromkeys(row.size for row in TABLE) if size is None else [size]
    problems = [_misfit(described, fields, one) for one in sizes]
    if all(problems):  # a size that suits the data may be one that fits
        raise problems[-1]  # type: ignore[misc]


def _misfit(described: Mapping[str, Any], fields: Mapping[str, int], size: int) -> SeqloomError | None:
    """Why the parts of a model don't fit together at a size."""
    try:
        check_wiring(described, fields=fields, size=size)
    except SeqloomError as error:
        return error
    return None


def check_parts(config: Config) -> None:
    """Refuse parts of training and search that can't be made, before the data is compiled and anything is trained."""
    build("search", config.search)
    updates = config.train.updates or MANY  # how many they are is known with the data
    more = {"schedule": (updates,)}
    for kind in ("optimiser", "schedule", "objective", "sampling", "metric"):
        spec = getattr(config.train, kind)
        if spec is not None:
            build(kind, {**CHOSEN.get(kind, {}), **_mapping(spec)}, *more.get(kind, ()))


def choose(config: Config, pairs: int) -> list[str]:
    """Fill in what the configuration leaves open and the number of pairs decides; says what was chosen."""
    row = suited_to(pairs)
    said: list[str] = []
    described = model_described(config)
    if not {"preset", "model"} & config.model.keys():
        said.append(f"preset {PRESET}")
    size, dropout = config.model.get("size"), config.model.get("dropout")
    if size is None:
        size = row.size
        said.append(f"size {size}")
    if dropout is None:
        dropout = row.dropout
        said.append(f"dropout {dropout}")
    config.model = complete(described, size=size, dropout=dropout)

    train = config.train
    if train.batch_tokens is None and train.batch_sentences is None:
        train.batch_tokens, train.batch_sentences = row.batch_tokens, row.batch_sentences
        said.append(
            f"batches of {row.batch_sentences or row.batch_tokens} {'sentences' if row.batch_sentences else 'tokens'}"
        )
    if train.updates is None and train.epochs is None:
        train.epochs = row.epochs
        said.append(f"{row.epochs} epochs")
    if train.optimiser is None or "name" not in _mapping(train.optimiser):
        suited = {"rate": row.rate, **decoder_class(config).adam}
        train.optimiser = {**CHOSEN["optimiser"], **suited, **_mapping(train.optimiser)}
        said.append(f"Adam at {train.optimiser['rate']}")
    train.patience = train.patience or 0
    train.keep = train.keep or 1
    return said


def choose_updates(config: Config, batches: int) -> list[str]:
    """Fill in what depends on how many batches an epoch has; says what was chosen."""
    train, said = config.train, []
    per_epoch = math.ceil(batches / train.accumulate)
    limits = [n for n in (train.updates, train.epochs and train.epochs * per_epoch) if n]
    if not limits:
        raise OptionError("training would have no end: give train.updates or train.epochs")
    train.updates = min(limits)
    if train.evaluate_every is None:
        train.evaluate_every = min(max(per_epoch, 100), 2000, train.updates)
        said.append(f"an evaluation every {train.evaluate_every} updates")
    if train.schedule is None or "name" not in _mapping(train.schedule):
        warmup = min(decoder_class(config).warmup, train.updates // 10)
        train.schedule = {**CHOSEN["schedule"], "warmup": warmup, **_mapping(train.schedule)}
        said.append(f"a cosine schedule with {train.schedule['warmup']} updates of warm-up")
    return said


def decoder_class(config: Config) -> type[Decoder]:
    """The class of a model's decoder, which knows how it is trained best; of a model without one, any decoder's."""
    return next((part for part in part_classes(config.model).values() if issubclass(part, Decoder)), Decoder)


def _mapping(spec: Any) -> dict[str, Any]:
    if spec is None:
        return {}
    return {"name": spec} if isinstance(spec, str) else dict(spec)

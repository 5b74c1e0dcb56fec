"""The corpus of a run: compiled from its files when it begins, or prepared before."""

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seqloom.config import Config, DataConfig
from seqloom.data.examples import SIDES, Examples, Pairs, Skipped
from seqloom.data.fields import Text
from seqloom.data.holdout import hold_out
from seqloom.data.prepare import Prepared, check_data, prepare
from seqloom.data.readers import Files, examples_of
from seqloom.errors import OptionError
from seqloom.train.defaults import choose_tokenizers
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder

Data = Examples | Iterable[Any]
"""What ``examples_of`` takes."""
READING = ("format", "columns", "header")
"""Fields of the data that say how files are read."""


def compiled(config: Config, folder: RunFolder, display: Display, train: Data | None, dev: Data | None) -> Prepared:
    """The corpus of a run: the prepared one it names, or its own, compiled now."""
    data = config.data
    if train is None and data.train is None:
        raise OptionError("there is nothing to train on: give --train or --task, or data.train in the configuration")
    if train is not None:
        refuse_set(data, ["train"], "the pairs are given as they are")
        if dev is not None or data.dev is None:  # else these are of the dev files
            refuse_set(data, ["dev", *READING], "the pairs are given as they are")
    if train is not None or not names_folder(data):
        return compile_corpus(config, folder.data, display=display, train=train, dev=dev)
    assert data.train is not None
    (name,) = data.train
    prepared = Prepared.open(Path(name))
    if prepared.dev is None:
        raise OptionError(f"{name} has no dev set to judge by: prepare it again")
    if dev is not None or data.dev is not None:
        raise OptionError(
            f"{name} is a prepared corpus with a dev set of its own: leave out --dev, or prepare it anew"
        )
    texts = {side: field.cutter.spec for side in SIDES if isinstance(field := prepared.fields[side], Text)}
    decided = DataConfig.model_validate(
        {
            "train": [str(Path(name).resolve())],
            "fields": {field: spec for field, spec in prepared.fields.specs.items() if field not in texts},
            "shared": prepared.fields.shared,
            "max_length": prepared.facts["max_length"],
            **texts,
        }
    )
    refuse_set(
        data, DataConfig.model_fields.keys() - {"train"}, f"{name} is a prepared corpus, its tokens are made", decided
    )
    if folder.data.exists():  # of a run in this folder that was stopped early: it would be taken for this run's own
        shutil.rmtree(folder.data)
    config.data = decided
    return prepared


def names_folder(data: DataConfig) -> bool:
    """Whether the training data is a folder: a prepared corpus, which knows its fields."""
    return data.train is not None and len(data.train) == 1 and Path(data.train[0]).is_dir()


def refuse_set(data: DataConfig, fields: Iterable[str], why: str, decided: DataConfig | None = None) -> None:
    """Refuse fields that have neither their default nor what is ``decided`` already: they would be ignored."""
    unset = DataConfig()
    for field in sorted(fields):
        if getattr(data, field) not in (getattr(unset, field), getattr(decided or unset, field)):
            raise OptionError(f"{why}: leave out data.{field}")


def compile_corpus(
    config: Config, out: Path, *, display: Display, train: Data | None = None, dev: Data | None = None
) -> Prepared:
    """Compile the training and dev data of a configuration into a folder."""
    data = config.data
    learned = files(data.train or [], config) if train is None else examples_of(train, name="train")
    judged = None
    if dev is not None or data.dev is not None:
        judged = files(data.dev or [], config) if dev is None else examples_of(dev, name="dev")
    check_data(learned, judged)
    skipped = Skipped()
    if judged is None:
        learned, held = hold_out(learned, seed=config.seed, empty=data.empty, skipped=skipped)
        display.say(f"no dev set given: {len(held):,} pairs of the training data are held out to judge by")
        judged = Pairs(held, name="dev")
    elif learned.once:
        learned = Pairs(list(learned.read(empty=data.empty, skipped=skipped)), name="train")
    validation = () if judged.once else judged.read(empty=data.empty)
    for line in choose_tokenizers(config, learned.read(empty=data.empty), validation):
        display.say(line)
    prepared = prepare(
        out,
        learned,
        judged,
        source=data.source or "bpe",
        target=data.target or "bpe",
        fields=data.fields,
        shared=data.shared,
        max_length=data.max_length,
        empty=data.empty,
        progress=display.working,
    )
    for part in ("train", "dev"):
        for line in left_out(
            part, Counter(prepared.facts[part]["skipped"]) + (skipped if part == "train" else Counter())
        ):
            display.say(line)
    return prepared


def files(paths: Sequence[str], config: Config) -> Examples:
    """Files of examples, as the configuration says how to read them."""
    data = config.data
    fields = dict.fromkeys((*SIDES, *data.fields))
    return Files.of(paths, format=data.format, columns=data.columns, header=data.header, fields=fields)


def left_out(part: str, skipped: Counter[str]) -> list[str]:
    """What was not taken of the train or dev data, and why; nothing if everything was."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    return [f"{part}: {skipped.total():,} pairs left out: {reasons}"] if reasons else []

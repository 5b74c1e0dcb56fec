"""The training corpus of a run: prepared when the run starts, or with ``seqloom prepare``."""

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seqloom.config import Config, DataConfig
from seqloom.data.examples import SIDES, Examples, Pairs, Skipped
from seqloom.data.fields import Text
from seqloom.data.holdout import hold_out
from seqloom.data.prepare import PreparedCorpus, check_data, prepare
from seqloom.data.readers import Files, examples_of
from seqloom.errors import ConfigError
from seqloom.train.defaults import choose_tokenizers
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder

Data = Examples | Iterable[Any]
"""Examples, in any form that ``examples_of`` accepts."""
READER_OPTIONS = ("format", "columns", "header")
"""Options of the data that describe how files are read."""


def load_or_prepare(
    config: Config, folder: RunFolder, display: Display, train: Data | None, dev: Data | None
) -> PreparedCorpus:
    """Open the prepared corpus that the configuration names, or prepare the data in the run folder."""
    data = config.data
    if train is None and data.train is None:
        raise ConfigError(
            "there is nothing to train on: give --train or --task, or set data.train in the configuration"
        )
    if train is not None:
        refuse_set(data, ["train"], "the pairs are given directly")
        if dev is not None or data.dev is None:  # otherwise the reader options apply to the files of data.dev
            refuse_set(data, ["dev", *READER_OPTIONS], "the pairs are given directly")
    if train is not None or not names_folder(data):
        return prepare_corpus(config, folder.data, display=display, train=train, dev=dev)
    assert data.train is not None
    (name,) = data.train
    prepared = PreparedCorpus.open(Path(name))
    if prepared.dev is None:
        raise ConfigError(f"{name} has no validation set: prepare it again with seqloom prepare")
    if dev is not None or data.dev is not None:
        raise ConfigError(
            f"{name} is a prepared corpus with its own validation set: remove --dev, or prepare it again with --dev"
        )
    texts = {side: field.trainer.spec for side in SIDES if isinstance(field := prepared.fields[side], Text)}
    fixed = DataConfig.model_validate(
        {
            "train": [str(Path(name).resolve())],
            "fields": {field: spec for field, spec in prepared.fields.specs.items() if field not in texts},
            "share_vocabulary": prepared.fields.shared,
            "max_length": prepared.metadata["max_length"],
            **{f"{side}_tokenizer": spec for side, spec in texts.items()},
        }
    )
    refuse_set(
        data, DataConfig.model_fields.keys() - {"train"}, f"{name} is a prepared corpus, already tokenized", fixed
    )
    if folder.data.exists():  # left by an interrupted run in this folder; a resumed run would use it
        shutil.rmtree(folder.data)
    config.data = fixed
    return prepared


def names_folder(data: DataConfig) -> bool:
    """Whether the training data is a folder, which must be a prepared corpus with its own fields."""
    return data.train is not None and len(data.train) == 1 and Path(data.train[0]).is_dir()


def refuse_set(data: DataConfig, options: Iterable[str], why: str, fixed: DataConfig | None = None) -> None:
    """Raise an error for options that would be ignored: neither the default nor the value in ``fixed``."""
    default = DataConfig()
    for option in sorted(options):
        if getattr(data, option) not in (getattr(default, option), getattr(fixed or default, option)):
            raise ConfigError(f"{why}: remove data.{option}")


def prepare_corpus(
    config: Config, out: Path, *, display: Display, train: Data | None = None, dev: Data | None = None
) -> PreparedCorpus:
    """Prepare the training and validation data of a configuration in a folder; see ``seqloom prepare``."""
    data = config.data
    train_examples = read_files(data.train or [], config) if train is None else examples_of(train, name="train")
    dev_examples = None
    if dev is not None or data.dev is not None:
        dev_examples = read_files(data.dev or [], config) if dev is None else examples_of(dev, name="dev")
    check_data(train_examples, dev_examples)
    skipped = Skipped()
    if dev_examples is None:
        train_examples, held_out = hold_out(train_examples, seed=config.seed, on_empty=data.on_empty, skipped=skipped)
        display.say(
            f"no validation set given: {len(held_out):,} pairs of the training data are held out for validation"
        )
        dev_examples = Pairs(held_out, name="dev")
    elif train_examples.once:
        train_examples = Pairs(list(train_examples.read(on_empty=data.on_empty, skipped=skipped)), name="train")
    validation = () if dev_examples.once else dev_examples.read(on_empty=data.on_empty)
    for line in choose_tokenizers(config, train_examples.read(on_empty=data.on_empty), validation):
        display.say(line)
    prepared = prepare(
        out,
        train_examples,
        dev_examples,
        source_tokenizer=data.source_tokenizer or "bpe",
        target_tokenizer=data.target_tokenizer or "bpe",
        fields=data.fields,
        share_vocabulary=data.share_vocabulary,
        max_length=data.max_length,
        on_empty=data.on_empty,
        progress=display.working,
    )
    for part in ("train", "dev"):
        for line in skipped_pairs(
            part, Counter(prepared.metadata[part]["skipped"]) + (skipped if part == "train" else Counter())
        ):
            display.say(line)
    return prepared


def read_files(paths: Sequence[str], config: Config) -> Examples:
    """The examples in files, read with the reader options of the configuration."""
    data = config.data
    fields = dict.fromkeys((*SIDES, *data.fields))
    return Files.of(paths, format=data.format, columns=data.columns, header=data.header, fields=fields)


def skipped_pairs(part: str, skipped: Counter[str]) -> list[str]:
    """A line with the number of skipped pairs of the training or validation data, by reason; no line if none were."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    return [f"{part}: {skipped.total():,} pairs skipped: {reasons}"] if reasons else []

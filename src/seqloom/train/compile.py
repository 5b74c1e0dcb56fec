"""The corpus of a run: compiled from its files when it begins, or prepared before."""

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from seqloom.config import Config, DataConfig
from seqloom.data.holdout import hold_out
from seqloom.data.prepare import Prepared, check_data, prepare
from seqloom.data.readers import Example, Files, Skipped, read
from seqloom.errors import InputError, OptionError
from seqloom.train.defaults import choose_tokenizers
from seqloom.train.display import Display
from seqloom.train.folder import RunFolder

Examples = Files | Sequence[Example]
READING = ("format", "columns", "header")
"""Fields of the data that say how files are read."""


def compiled(
    config: Config, folder: RunFolder, display: Display, train: Examples | None, dev: Examples | None
) -> Prepared:
    """The corpus of a run: the prepared one it names, or its own, compiled now."""
    data = config.data
    if train is None and data.train is None:
        raise OptionError("there is nothing to train on: give --train or --task, or data.train in the configuration")
    if train is not None:
        refuse_set(data, ["train"], "the pairs are given as they are")
        if dev is not None or data.dev is None:  # else these are of the dev files
            refuse_set(data, ["dev", *READING], "the pairs are given as they are")
    if train is not None or data.train is None or len(data.train) != 1 or not Path(data.train[0]).is_dir():
        return compile_corpus(config, folder.data, display=display, train=train, dev=dev)
    name = data.train[0]
    prepared = Prepared.open(Path(name))
    if prepared.dev is None:
        raise OptionError(f"{name} has no dev set to judge by: prepare it again")
    if dev is not None or data.dev is not None:
        raise OptionError(
            f"{name} is a prepared corpus with a dev set of its own: leave out --dev, or prepare it anew"
        )
    decided = DataConfig(
        train=[str(Path(name).resolve())],
        source=prepared.tokenizers.source.spec,
        target=prepared.tokenizers.target.spec,
        shared=prepared.tokenizers.shared,
        max_length=prepared.facts["max_length"],
    )
    refuse_set(
        data, DataConfig.model_fields.keys() - {"train"}, f"{name} is a prepared corpus, its tokens are made", decided
    )
    if folder.data.exists():  # of a run in this folder that was stopped early: it would be taken for this run's own
        shutil.rmtree(folder.data)
    config.data = decided
    return prepared


def refuse_set(data: DataConfig, fields: Iterable[str], why: str, decided: DataConfig | None = None) -> None:
    """Refuse fields that have neither their default nor what is ``decided`` already: they would be ignored."""
    unset = DataConfig()
    for field in sorted(fields):
        if getattr(data, field) not in (getattr(unset, field), getattr(decided or unset, field)):
            raise OptionError(f"{why}: leave out data.{field}")


def compile_corpus(
    config: Config, out: Path, *, display: Display, train: Examples | None = None, dev: Examples | None = None
) -> Prepared:
    """Compile the training and dev data of a configuration into a folder."""
    data = config.data
    for part, given in (("train on", train), ("judge by", dev)):
        if given is not None and not isinstance(given, Files) and not given:
            raise InputError(f"the list of pairs to {part} is empty")
    train = files(data.train or [], config) if train is None else train
    dev = files(data.dev, config) if dev is None and data.dev is not None else dev
    check_data(train, dev)
    skipped = Skipped()
    remaining: Files | Iterable[Example] = train
    if dev is None:
        remaining, dev = hold_out(train, seed=config.seed, empty=data.empty, skipped=skipped)
        display.say(f"no dev set given: {len(dev):,} pairs of the training data are held out to judge by")
    elif isinstance(train, Files) and train.once:
        remaining = list(read(train, empty=data.empty, skipped=skipped))
    looked_at = read(remaining, empty=data.empty) if isinstance(remaining, Files) else iter(remaining)
    can_read_again = not (isinstance(dev, Files) and dev.once)
    validation = (read(dev, empty=data.empty) if isinstance(dev, Files) else dev) if can_read_again else ()
    for line in choose_tokenizers(config, looked_at, validation):
        display.say(line)
    assert data.source is not None
    assert data.target is not None
    prepared = prepare(
        out,
        remaining,
        dev,
        source=data.source,
        target=data.target,
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


def files(paths: Sequence[str], config: Config) -> Files:
    """Files of examples, as the configuration says how to read them."""
    data = config.data
    columns = None if data.columns is None else tuple(data.columns)
    return Files.of(paths, format=data.format, columns=columns, header=data.header)


def left_out(part: str, skipped: Counter[str]) -> list[str]:
    """What was not taken of the train or dev data, and why; nothing if everything was."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    return [f"{part}: {skipped.total():,} pairs left out: {reasons}"] if reasons else []

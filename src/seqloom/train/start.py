"""From a configuration to a trained run, and from an interrupted run to the end of it."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from seqloom.config import LIMITS, Config, make_config
from seqloom.data.batchers import Batcher
from seqloom.data.examples import SIDES
from seqloom.data.fields import Fields
from seqloom.data.prepare import Prepared, is_prepared
from seqloom.decode.rollout import rolls_out
from seqloom.errors import OptionError
from seqloom.files import write
from seqloom.metrics import Metric
from seqloom.models.base import Autoregressive
from seqloom.models.build import build_model
from seqloom.models.describe import fields_read
from seqloom.predictor import Predictor
from seqloom.registry import build
from seqloom.train.averaging import average
from seqloom.train.checkpoint import load_weights, put_weights, save_weights
from seqloom.train.compile import Data, compiled, names_folder
from seqloom.train.defaults import check_model, check_parts, choose, choose_updates, model_described
from seqloom.train.display import Display
from seqloom.train.folder import Lines, RunFolder
from seqloom.train.interrupt import Interrupts
from seqloom.train.judge import fitting, judge_for, validation_metrics
from seqloom.train.loop import Loop, batcher_for
from seqloom.train.readme import readme
from seqloom.train.task import task_examples

SHOWN, TOKENS_SHOWN = 3, 40
"""Pairs that are shown when training starts, and how many tokens of each side."""


def train(
    config: Config,
    out: Path,
    *,
    display: Display,
    train_examples: Data | None = None,
    dev_examples: Data | None = None,
    command: str = "",
) -> RunFolder:
    """Train a run in the folder ``out``; examples given here stand for the files of the configuration."""
    if train_examples is not None and config.data.task is not None:
        raise OptionError("both pairs and data.task are given: leave out one of them")
    folder = RunFolder(out)
    folder.check_free()
    check_fields(config)
    check_parts(config)
    folder.sweep()
    if config.data.task is not None:
        train_examples, dev_examples = task_examples(config)
    prepared = compiled(config, folder, display, train_examples, dev_examples)
    check_inputs(config)
    assert prepared.dev is not None
    pairs = len(prepared.train)
    said = choose_metric(config, prepared)
    said += choose(config, pairs)
    batches = batcher_for(prepared.train, config.train, config.seed)
    said += choose_updates(config, len(batches.plan(0)))
    if said:
        display.say(f"{pairs:,} pairs; chosen to suit them: {', '.join(said)}")
    network = make_network(config, prepared)
    parameters = sum(p.numel() for p in network.parameters())
    display.say(f"{parameters:,} parameters; {config.train.updates:,} updates; the run is in {out}")
    prepared.fields.save(folder.path)
    for line in as_seen(prepared):
        display.say(line)
    loop = _loop(folder, config, prepared, network, batches, display)
    folder.write_config(config, command)
    return _run(loop, config, prepared)


def check_fields(config: Config) -> None:
    """Refuse fields and a model that can't be made before the data is compiled."""
    for spec in config.data.fields.values():
        build("field", spec)
    if not names_folder(config.data):
        check_inputs(config)
    check_model(config)


def check_inputs(config: Config) -> None:
    """Refuse a further field that the model doesn't read, and one that it reads and that is not there."""
    further = config.data.fields.keys() - {*SIDES}
    read = fields_read(model_described(config))
    for name in sorted(further - read.keys()):
        raise OptionError(f"data.fields.{name} is read by nothing: add model.inputs.{name}={{embedder: …, joins: …}}")
    for name in sorted(read.keys() - further):
        raise OptionError(f"model.{read[name]} reads a field that is not there: add data.fields.{name}={{name: …}}")


def choose_metric(config: Config, prepared: Prepared) -> list[str]:
    """The metric that decides, where the configuration names none: the first that suits the target's field."""
    if config.train.metric is not None:
        return []
    assert prepared.dev is not None
    target = prepared.fields["target"]
    best, *_ = target.metrics([example["target"] for example in prepared.dev.examples()])
    config.train.metric = fitting(best, target)
    return [f"judged by {best}"]


def as_seen(prepared: Prepared) -> list[str]:
    """Three pairs as the model sees them, tokens separated, and how to choose other tokens."""
    corpus = prepared.train
    rows = sorted({number * (len(corpus) - 1) // max(SHOWN - 1, 1) for number in range(SHOWN)})
    said = ["pairs as the model sees them:"]
    for row in rows:
        shown = {name: _shortened(field.show(corpus.row(name, row))) for name, field in prepared.fields.items()}
        target = shown.pop("target")
        said.append(f"    {'  +  '.join(shown.values())}  →  {target}")
    return [*said, "to choose otherwise: --set data.source=… --set data.target=… (seqloom parts tokenizer)"]


def _shortened(tokens: list[str]) -> str:
    """Tokens for a person to see where each ends: a space is shown as ␣."""
    shown = [token.replace(" ", "␣") for token in tokens[:TOKENS_SHOWN]]
    return "·".join(shown + ["…"] * (len(tokens) > TOKENS_SHOWN))


def resume(out: Path, changes: Mapping[str, Any], *, display: Display) -> RunFolder:
    """Go on with a run where its last checkpoint is; ``changes`` may lengthen it."""
    folder = RunFolder(out)
    config = folder.read_config()
    if folder.weights.exists() and not folder.checkpoint.exists():
        raise OptionError(f"{folder.checkpoint} is gone, and nothing can go on without it: train a new run")
    if changes:
        config = lengthened(config, changes)
    check_parts(config)
    prepared = Prepared.open(prepared_folder(config, folder))
    if not Fields.load(folder.path).same(prepared.fields):
        raise OptionError(f"{prepared.folder} was prepared anew, with other tokens than this run began with")
    folder.sweep()
    network = make_network(config, prepared)
    batches = batcher_for(prepared.train, config.train, config.seed)
    if config.train.updates is None:
        choose_updates(config, len(batches.plan(0)))
    loop = _loop(folder, config, prepared, network, batches, display)
    folder.write_config(config, folder.command)  # now that all of it is known to work
    if changes.get("train", {}).keys() & LIMITS and loop.standing.update:
        loop.wait_anew()
    return _run(loop, config, prepared)


MAY_CHANGE = {"updates", "epochs", "patience", "checkpoint_seconds", "device", "log_every"}


def lengthened(config: Config, changes: Mapping[str, Any]) -> Config:
    """The configuration of a run with other limits; anything else would make it another run."""
    wrong = [key for key in changes if key != "train"] + [
        f"train.{key}" for key in changes.get("train", {}) if key not in MAY_CHANGE
    ]
    if wrong:
        allowed = ", ".join(f"train.{key}" for key in sorted(MAY_CHANGE))
        raise OptionError(f"{wrong[0]} can't change while a run goes on: only {allowed}; or train a new one")
    return make_config(config.model_dump(mode="json"), changes)


def prepared_folder(config: Config, folder: RunFolder) -> Path:
    """Where a run's compiled corpus is."""
    named = [Path(path) for path in config.data.train or ()]
    for home in (folder.data, *named):
        if is_prepared(home):
            return home
    other = f", and {named[0]} is no prepared corpus" if len(named) == 1 else ""
    raise OptionError(
        f"{folder.data}, the compiled corpus of this run, is gone{other}: it can't go on. "
        f"What was trained can still be used; or train a new run"
    )


def make_network(config: Config, prepared: Prepared) -> Autoregressive:
    """The network of a resolved configuration as it is before training, on its device."""
    torch.manual_seed(config.seed)
    network = build_model(config.model, sizes={name: field.size for name, field in prepared.fields.items()})
    check_lengths(network, prepared)
    return network.to(device(config.train.device))


def check_lengths(network: Autoregressive, prepared: Prepared) -> None:
    """Refuse a model that knows fewer positions than the data has: it would stop in the middle, and for good."""
    longest_of = {"source": (network.longest_source, "encoder"), "target": (network.max_length, "decoder")}
    for side, (most, part) in longest_of.items():
        for data in ("train", "dev"):
            longest = prepared.facts[data][f"longest_{side}"]
            if most is not None and longest > most:
                needed = longest + (part == "decoder")  # START has the first
                raise OptionError(
                    f"a {side} of the {data} data has {longest} tokens, and the model has positions for {most}: set "
                    f"model.{part}.positions.longest={needed}, or use sinusoidal ones, or leave out what is so long"
                )


def device(name: str) -> torch.device:
    """The device of this name; ``auto`` is the best that is there."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        wanted = torch.device(name)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        raise OptionError(f"device {name!r} is not there: {str(error).splitlines()[0]}; use auto or cpu") from None
    return wanted


def _loop(
    folder: RunFolder,
    config: Config,
    prepared: Prepared,
    network: Autoregressive,
    batches: Batcher,
    display: Display,
) -> Loop:
    """The loop of a run, where its last checkpoint is, if there is one."""
    assert prepared.dev is not None
    assert config.train.metric is not None
    examples = list(prepared.dev.examples())
    suitable = prepared.fields["target"].metrics([example["target"] for example in examples])
    also = [*([] if rolls_out(network) else ["loss", "perplexity"]), *validation_metrics(suitable)]
    judge = judge_for(examples, prepared.fields, config.train.metric, also)
    if rolls_out(network) and judge.metrics[judge.decides].needs == "model":
        raise OptionError(f"train.metric={judge.decides} judges tokens, which this model doesn't write: leave it out")
    loop = Loop(network, batches, judge, config=config.train, folder=folder, display=display)
    if loop.restore():
        if loop.standing.corpus not in ("", prepared.digest):
            raise OptionError(
                f"{prepared.folder} was prepared anew, with other pairs than this run began with: make it again as "
                f"it was, or train a new run"
            )
        display.say(f"going on after update {loop.standing.update:,} of {config.train.updates:,}")
    loop.standing.corpus = prepared.digest
    return loop


def _run(loop: Loop, config: Config, prepared: Prepared) -> RunFolder:
    """Train to the end, or until interrupted; then keep the weights to use, and write the page about the run."""
    folder, network = loop.folder, loop.network
    with Interrupts() as interrupts:
        finished = loop.run(interrupts)
        weights = average(loop.best_weights())
        save_weights(folder.weights, weights)
        final = None
        if finished:
            put_weights(network, weights, folder.weights)
            found = _final(network, prepared, loop.judge.metrics, config, interrupts)
            finished = found is not None
            if found is not None:
                final, truncated = found
                record = {"update": loop.standing.update, "final": final}
                Lines(folder.metrics).append(record | ({"truncated": truncated} if truncated else {}))
                for line in closing_remarks(loop, config, truncated):
                    loop.display.say(line)
    write(folder.readme, readme(folder, config, prepared, network, final))
    if not finished:
        loop.display.say(f"stopped after update {loop.standing.update:,}")
    return folder


def closing_remarks(loop: Loop, config: Config, truncated: int) -> list[str]:
    """What to know about a run that is over: outputs that were truncated, and whether it was still improving."""
    said = []
    if truncated:
        count = len(loop.judge.examples)
        said.append(
            f"{truncated:,} of {count:,} outputs on the validation set were truncated at the maximum length "
            f"(search.max_length, search.max_ratio)"
        )
    standing, best = loop.standing, loop.standing.best
    if standing.unmoved > 1 and not loop.is_stuck and loop.judge.decides != "loss":
        said.append(
            f"{loop.judge.decides} had the same value in all {standing.unmoved} validations, so the validation loss "
            f"selected the weights. To choose another metric: --set train.metric=…"
        )
    if standing.evaluated > (config.train.evaluate_every or 0) and best and best[0][1] == standing.update:
        longer = (
            f"train.epochs={2 * config.train.epochs}" if config.train.epochs else f"train.updates={2 * loop.updates}"
        )
        said.append(
            f"the last validation score was the best, so the run was still improving. To continue it: "
            f"seqloom train --resume {shlex.quote(str(loop.folder.path))} --set {longer}"
        )
    return said


def _final(
    network: Autoregressive,
    prepared: Prepared,
    metrics: Mapping[str, Metric],
    config: Config,
    interrupts: Interrupts,
) -> tuple[dict[str, dict[str, Any]], int] | None:
    """Dev judged once more, with the weights and the search that will be used: value and signature by metric.

    With them, how many outputs were truncated. None if it was interrupted.
    """
    assert prepared.dev is not None
    examples = list(prepared.dev.examples())
    answers = Predictor(network, prepared.fields).judged(
        examples, build("search", config.search), stop=lambda: interrupts.asked
    )
    if answers is None:
        return None
    values = {
        name: {"value": metric.score(answers), "signature": metric.signature(answers)}
        for name, metric in metrics.items()
    }
    return values, answers.truncated_count


def load_network(folder: RunFolder, config: Config, sizes: Mapping[str, int]) -> Autoregressive:
    """The trained network of a run."""
    network = build_model(config.model, sizes=sizes)
    put_weights(network, load_weights(folder.weights), folder.weights)
    return network.eval()

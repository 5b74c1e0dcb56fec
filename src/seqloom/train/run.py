"""Training a run from a configuration, and resuming an interrupted run."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from seqloom.config import TRAINING_LIMITS, Config, make_config
from seqloom.data.batchers import Batcher
from seqloom.data.examples import SIDES
from seqloom.data.fields import Fields
from seqloom.data.prepare import PreparedCorpus, is_prepared
from seqloom.decode.rollout import rolls_out
from seqloom.errors import ConfigError
from seqloom.files import write
from seqloom.metrics import Metric
from seqloom.models.base import Autoregressive
from seqloom.models.build import build_model
from seqloom.models.describe import fields_read
from seqloom.predictor import Predictor
from seqloom.registry import build
from seqloom.train.averaging import average_checkpoints
from seqloom.train.checkpoint import load_into, load_weights, save_weights
from seqloom.train.components import build_batcher
from seqloom.train.defaults import check_model, check_parts, choose_for_size, choose_updates, model_description
from seqloom.train.display import Display
from seqloom.train.folder import JsonlLog, RunFolder
from seqloom.train.interrupt import Interrupts
from seqloom.train.prepare_data import Data, load_or_prepare, names_folder
from seqloom.train.readme import readme
from seqloom.train.task import task_examples
from seqloom.train.trainer import Trainer
from seqloom.train.validator import make_validator, metric_spec, validation_metrics

PAIRS_SHOWN, TOKENS_SHOWN = 3, 40
"""Number of training pairs, and of tokens per side, that are shown when training starts."""


def train(
    config: Config,
    out: Path,
    *,
    display: Display,
    train_examples: Data | None = None,
    dev_examples: Data | None = None,
    command: str = "",
) -> RunFolder:
    """Train a run in the folder ``out``.

    train_examples, dev_examples: examples to use instead of files.
    command: the command to record in the run folder.
    """
    if train_examples is not None and config.data.task is not None:
        raise ConfigError("pairs and data.task can't both be given: remove one of them")
    folder = RunFolder(out)
    folder.check_free()
    check_fields(config)
    check_parts(config)
    folder.remove_partial_files()
    if config.data.task is not None:
        train_examples, dev_examples = task_examples(config)
    prepared = load_or_prepare(config, folder, display, train_examples, dev_examples)
    check_inputs(config)
    assert prepared.dev is not None
    pairs = len(prepared.train)
    choices = choose_metric(config, prepared)
    choices += choose_for_size(config, pairs)
    batcher = build_batcher(prepared.train, config.train, config.seed)
    choices += choose_updates(config, len(batcher.plan(0)))
    if choices:
        display.say(f"{pairs:,} training pairs; options chosen to fit them: {', '.join(choices)}")
    network = make_network(config, prepared)
    parameters = sum(p.numel() for p in network.parameters())
    display.say(f"{parameters:,} parameters; {config.train.updates:,} updates; run folder: {out}")
    prepared.fields.save(folder.path)
    for line in tokenized_pairs(prepared):
        display.say(line)
    trainer = _trainer(folder, config, prepared, network, batcher, display)
    folder.write_config(config, command)
    return _run(trainer, config, prepared)


def check_fields(config: Config) -> None:
    """Check that the fields and the model can be built, before the data is prepared."""
    for spec in config.data.fields.values():
        build("field", spec)
    if not names_folder(config.data):
        check_inputs(config)
    check_model(config)


def check_inputs(config: Config) -> None:
    """Check that the model reads every additional field, and that every field that it reads exists."""
    additional = config.data.fields.keys() - {*SIDES}
    read = fields_read(model_description(config))
    for name in sorted(additional - read.keys()):
        raise ConfigError(
            f"the model does not read data.fields.{name}: add model.inputs.{name}={{embedder: …, joins: …}}"
        )
    for name in sorted(read.keys() - additional):
        raise ConfigError(f"model.{read[name]} reads an undefined field: add data.fields.{name}={{name: …}}")


def choose_metric(config: Config, prepared: PreparedCorpus) -> list[str]:
    """Set the validation metric, if unset, to the first that fits the target; returns messages about the choice."""
    if config.train.validation_metric is not None:
        return []
    assert prepared.dev is not None
    target = prepared.fields["target"]
    best, *_ = target.metrics([example["target"] for example in prepared.dev.examples()])
    config.train.validation_metric = metric_spec(best, target)
    return [f"validation metric {best}"]


def tokenized_pairs(prepared: PreparedCorpus) -> list[str]:
    """Lines with three tokenized training pairs, and how to change the tokenizers."""
    corpus = prepared.train
    rows = sorted({number * (len(corpus) - 1) // max(PAIRS_SHOWN - 1, 1) for number in range(PAIRS_SHOWN)})
    lines = ["tokenized training pairs:"]
    for row in rows:
        shown = {name: _joined(field.show(corpus.row(name, row))) for name, field in prepared.fields.items()}
        target = shown.pop("target")
        lines.append(f"    {'  +  '.join(shown.values())}  →  {target}")
    return [
        *lines,
        "to change the tokenizers: --set data.source_tokenizer=… --set data.target_tokenizer=… "
        "(seqloom parts tokenizer)",
    ]


def _joined(tokens: list[str]) -> str:
    """Tokens joined by visible separators, shortened; a space is shown as ␣."""
    shown = [token.replace(" ", "␣") for token in tokens[:TOKENS_SHOWN]]
    return "·".join(shown + ["…"] * (len(tokens) > TOKENS_SHOWN))


def resume(out: Path, changes: Mapping[str, Any], *, display: Display) -> RunFolder:
    """Resume a run from its last checkpoint.

    changes: settings to change, such as a new limit; see ``RESUMABLE_SETTINGS``.
    """
    folder = RunFolder(out)
    config = folder.read_config()
    if folder.weights.exists() and not folder.checkpoint.exists():
        raise ConfigError(f"{folder.checkpoint} is missing, so the run can't be resumed: train a new run")
    if changes:
        config = with_new_limits(config, changes)
    check_parts(config)
    prepared = PreparedCorpus.open(prepared_folder(config, folder))
    if not Fields.load(folder.path).same(prepared.fields):
        raise ConfigError(
            f"{prepared.folder} has changed since this run started (different tokens): restore the original corpus, "
            "or train a new run"
        )
    folder.remove_partial_files()
    network = make_network(config, prepared)
    batcher = build_batcher(prepared.train, config.train, config.seed)
    if config.train.updates is None:
        choose_updates(config, len(batcher.plan(0)))
    trainer = _trainer(folder, config, prepared, network, batcher, display)
    folder.write_config(config, folder.command)  # only now, when the settings are known to be valid
    if changes.get("train", {}).keys() & TRAINING_LIMITS and trainer.state.update:
        trainer.reset_patience()
    return _run(trainer, config, prepared)


RESUMABLE_SETTINGS = {"updates", "epochs", "patience", "checkpoint_seconds", "device", "log_every"}
"""Settings of ``train`` that can change when a run is resumed."""


def with_new_limits(config: Config, changes: Mapping[str, Any]) -> Config:
    """The configuration of a run with changed settings; only some settings of ``train`` can change."""
    wrong = [key for key in changes if key != "train"] + [
        f"train.{key}" for key in changes.get("train", {}) if key not in RESUMABLE_SETTINGS
    ]
    if wrong:
        allowed = ", ".join(f"train.{key}" for key in sorted(RESUMABLE_SETTINGS))
        raise ConfigError(
            f"{wrong[0]} can't be changed when a run is resumed: change only {allowed}, or train a new run"
        )
    return make_config(config.model_dump(mode="json"), changes)


def prepared_folder(config: Config, folder: RunFolder) -> Path:
    """The folder of the prepared corpus of a run."""
    named = [Path(path) for path in config.data.train or ()]
    for path in (folder.data, *named):
        if is_prepared(path):
            return path
    other = f", and {named[0]} is not a prepared corpus" if len(named) == 1 else ""
    raise ConfigError(
        f"{folder.data}, the prepared corpus of this run, is missing{other}: the run can't be resumed. The trained "
        f"model can still be used; to train further, start a new run"
    )


def make_network(config: Config, prepared: PreparedCorpus) -> Autoregressive:
    """The untrained network of a resolved configuration, on its device."""
    torch.manual_seed(config.seed)
    network = build_model(config.model, sizes={name: field.size for name, field in prepared.fields.items()})
    check_lengths(network, prepared)
    return network.to(device(config.train.device))


def check_lengths(network: Autoregressive, prepared: PreparedCorpus) -> None:
    """Check that the model has enough positions for the data; otherwise training would fail in the middle."""
    limits = {"source": (network.max_source_length, "encoder"), "target": (network.max_length, "decoder")}
    for side, (max_length, part) in limits.items():
        for data in ("train", "dev"):
            longest = prepared.metadata[data][f"longest_{side}"]
            if max_length is not None and longest > max_length:
                needed = longest + (part == "decoder")  # BOS has the first position
                raise ConfigError(
                    f"a {side} in the {data} data has {longest} tokens, but the model has positions for "
                    f"{max_length}: set model.{part}.positional_encoding.max_positions={needed}, use sinusoidal "
                    "positions, or remove long examples"
                )


def device(name: str) -> torch.device:
    """The device with this name; ``auto`` is the accelerator if there is one, else the CPU."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        named = torch.device(name)
        torch.empty(0, device=named)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device {name!r} is not available: {str(error).splitlines()[0]}; use auto or cpu"
        ) from None
    return named


def _trainer(
    folder: RunFolder,
    config: Config,
    prepared: PreparedCorpus,
    network: Autoregressive,
    batcher: Batcher,
    display: Display,
) -> Trainer:
    """The trainer of a run, restored from its last checkpoint if there is one."""
    assert prepared.dev is not None
    assert config.train.validation_metric is not None
    examples = list(prepared.dev.examples())
    suitable = prepared.fields["target"].metrics([example["target"] for example in examples])
    others = [*([] if rolls_out(network) else ["loss", "perplexity"]), *validation_metrics(suitable)]
    validator = make_validator(examples, prepared.fields, config.train.validation_metric, others)
    if rolls_out(network) and validator.metrics[validator.primary_metric].needs == "model":
        raise ConfigError(
            f"train.validation_metric={validator.primary_metric} needs the probabilities of tokens, which this model "
            "does not have: choose another metric, or remove it"
        )
    trainer = Trainer(network, batcher, validator, config=config.train, folder=folder, display=display)
    if trainer.restore():
        if trainer.state.corpus not in ("", prepared.digest):
            raise ConfigError(
                f"{prepared.folder} has changed since this run started (different pairs): restore the original "
                "corpus, or train a new run"
            )
        display.say(f"resuming after update {trainer.state.update:,} of {config.train.updates:,}")
    trainer.state.corpus = prepared.digest
    return trainer


def _run(trainer: Trainer, config: Config, prepared: PreparedCorpus) -> RunFolder:
    """Train until done or interrupted, then save the weights for prediction and write the README."""
    folder, network = trainer.folder, trainer.network
    with Interrupts() as interrupts:
        finished = trainer.run(interrupts)
        weights = average_checkpoints(trainer.best_weights())
        save_weights(folder.weights, weights)
        final = None
        if finished:
            load_into(network, weights, folder.weights)
            evaluation = _evaluate_final(network, prepared, trainer.validator.metrics, config, interrupts)
            finished = evaluation is not None
            if evaluation is not None:
                final, truncated = evaluation
                record = {"update": trainer.state.update, "final": final}
                JsonlLog(folder.metrics).append(record | ({"truncated": truncated} if truncated else {}))
                for line in closing_remarks(trainer, config, truncated):
                    trainer.display.say(line)
    write(folder.readme, readme(folder, config, prepared, network, final))
    if not finished:
        trainer.display.say(f"stopped after update {trainer.state.update:,}")
    return folder


def closing_remarks(trainer: Trainer, config: Config, truncated: int) -> list[str]:
    """Notes on a finished run: truncated outputs, a constant metric, and whether it was still improving."""
    remarks = []
    if truncated:
        count = len(trainer.validator.examples)
        remarks.append(
            f"{truncated:,} of {count:,} outputs on the validation set were truncated at the maximum length "
            f"(search.max_length, search.max_length_ratio)"
        )
    state, best = trainer.state, trainer.state.best
    if state.unmoved > 1 and not trainer.is_stuck and trainer.validator.primary_metric != "loss":
        remarks.append(
            f"{trainer.validator.primary_metric} had the same value in all {state.unmoved} validations, so the "
            f"validation loss selected the best checkpoint. To use another metric: --set train.validation_metric=…"
        )
    if state.evaluated > (config.train.evaluate_every or 0) and best and best[0][1] == state.update:
        longer = (
            f"train.epochs={2 * config.train.epochs}"
            if config.train.epochs
            else f"train.updates={2 * trainer.updates}"
        )
        remarks.append(
            f"the last validation was the best, so the run was still improving. To continue it: "
            f"seqloom train --resume {shlex.quote(str(trainer.folder.path))} --set {longer}"
        )
    return remarks


def _evaluate_final(
    network: Autoregressive,
    prepared: PreparedCorpus,
    metrics: Mapping[str, Metric],
    config: Config,
    interrupts: Interrupts,
) -> tuple[dict[str, dict[str, Any]], int] | None:
    """Evaluate the final weights on the validation set with the configured search.

    Returns value and signature by metric, and the number of truncated outputs; None if interrupted.
    """
    assert prepared.dev is not None
    examples = list(prepared.dev.examples())
    predictions = Predictor(network, prepared.fields).predict_for_evaluation(
        examples, build("search", config.search), stop=lambda: interrupts.stop_requested
    )
    if predictions is None:
        return None
    values = {
        name: {"value": metric.score(predictions), "signature": metric.signature(predictions)}
        for name, metric in metrics.items()
    }
    return values, predictions.truncated_count


def load_network(folder: RunFolder, config: Config, sizes: Mapping[str, int]) -> Autoregressive:
    """The trained network of a run."""
    network = build_model(config.model, sizes=sizes)
    load_into(network, load_weights(folder.weights), folder.weights)
    return network.eval()

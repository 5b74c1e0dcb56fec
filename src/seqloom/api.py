"""The Python API: ``fit`` and ``load`` return a ``Model`` that predicts, scores and evaluates."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from seqloom.config import Config, make_config
from seqloom.data.examples import Example, Examples
from seqloom.data.fields import Fields, Text
from seqloom.data.readers import examples_of
from seqloom.decode import Search
from seqloom.decode.ensemble import Ensemble
from seqloom.errors import ConfigError, InputError, SeqloomError, unknown
from seqloom.merge import by_path
from seqloom.metrics import Comparison, EvaluationData, Metric, Report, compare, evaluate
from seqloom.nn.layout import use_column_major_weights
from seqloom.predictor import Constraints, Prediction, Predictor, TargetScore
from seqloom.registry import Spec, build, get_class, parse_spec, parts, validate_options
from seqloom.registry import options as options_of
from seqloom.trace import Trace
from seqloom.train.display import Display, display_for
from seqloom.train.folder import RunFolder
from seqloom.train.run import device as device_named
from seqloom.train.run import load_network, train
from seqloom.train.validator import metric_spec

Folder = str | Path
Pairs = Iterable[tuple[str, str]] | Iterable[Example]
Inputs = Mapping[str, Any]
Data = Folder | Iterable[Folder] | Examples | Pairs


class Model:
    """A trained model.

    Its input is a source, or a mapping with a value for every input field: ``{"source": …, "tags": …}``.

    config: the configuration of its run.
    fields: the fields of its inputs and its target.
    network: the PyTorch module.
    """

    def __init__(self, config: Config, fields: Fields, predictor: Predictor) -> None:
        self.config = config
        self.fields = fields
        self.predictor = predictor

    @property
    def network(self) -> Any:
        """The PyTorch module."""
        return self.predictor.network

    @overload
    def predict(self, sources: str, *, search: Spec | None = None, **options: Any) -> str: ...
    @overload
    def predict(self, sources: Inputs, *, search: Spec | None = None, **options: Any) -> Any: ...
    @overload
    def predict(self, sources: Iterable[Any], *, search: Spec | None = None, **options: Any) -> list[Any]: ...
    def predict(self, sources: str | Inputs | Iterable[Any], *, search: Spec | None = None, **options: Any) -> Any:
        """The best prediction for one source, or for each of several: a value of the target field, such as a string.

        search: the decoding strategy, by name or with options; by default, the one in the run's configuration.
        options: options of the search, such as ``beam_size=10``, and constraints: ``prefix``, ``forbid``,
            ``require``, ``no_repeat_ngram_size``, ``repetition_penalty``, ``grammar``.
        """
        if isinstance(sources, str | Mapping):
            return self.predict([sources], search=search, **options)[0]
        resolved, constraints = self.resolve_search(search, options)
        generated = self.predictor.generate(list(sources), resolved, constraints=constraints, return_attention=False)
        return [predictions[0].text for predictions in generated]

    @overload
    def generate(
        self, sources: str | Inputs, *, search: Spec | None = None, return_attention: bool = True, **options: Any
    ) -> list[Prediction]: ...
    @overload
    def generate(
        self, sources: Iterable[Any], *, search: Spec | None = None, return_attention: bool = True, **options: Any
    ) -> list[list[Prediction]]: ...
    def generate(
        self,
        sources: str | Inputs | Iterable[Any],
        *,
        search: Spec | None = None,
        return_attention: bool = True,
        **options: Any,
    ) -> list[Prediction] | list[list[Prediction]]:
        """All hypotheses for one source, or for each of several, best first.

        Each has tokens, log-probabilities and, with ``return_attention``, attention weights. search, options: as in
        ``predict``.
        """
        if isinstance(sources, str | Mapping):
            return self.generate([sources], search=search, return_attention=return_attention, **options)[0]
        resolved, constraints = self.resolve_search(search, options)
        return self.predictor.generate(
            list(sources), resolved, constraints=constraints, return_attention=return_attention
        )

    def trace(self, source: str | Inputs, *, search: Spec | None = None, **options: Any) -> Trace:
        """Record how the model processes one source: activations, attention weights and beam history.

        The hypotheses are the same as those of ``generate`` with the same search and options.
        """
        resolved, constraints = self.resolve_search(search, options)
        return self.predictor.trace(source, resolved, constraints=constraints)

    @overload
    def score(self, sources: str | Inputs, targets: str) -> TargetScore: ...
    @overload
    def score(self, sources: Iterable[Any], targets: Iterable[Any]) -> list[TargetScore]: ...
    def score(
        self, sources: str | Inputs | Iterable[Any], targets: str | Iterable[Any]
    ) -> TargetScore | list[TargetScore]:
        """The log-probability of a target given its source, or of several targets, in total and per token."""
        if isinstance(sources, str | Mapping) and isinstance(targets, str):
            return self.predictor.scores([sources], [targets])[0]
        if isinstance(sources, str | Mapping) or isinstance(targets, str):
            raise InputError("sources and targets must both be strings or both be lists")
        return self.predictor.scores(list(sources), list(targets))

    def evaluation_data(
        self, data: Data | None = None, *, task: Spec | None = None, search: Spec | None = None, **options: Any
    ) -> EvaluationData:
        """The model's predictions for data with references, or for a task's test set: the input of metrics."""
        examples = read_test_examples(data, task, self.fields)
        if not examples:
            raise InputError("there is nothing to evaluate: the data has no pairs")
        resolved, constraints = self.resolve_search(search, options)
        evaluation_data = self.predictor.predict_for_evaluation(examples, resolved, constraints=constraints)
        assert evaluation_data is not None
        return evaluation_data

    def evaluate(
        self,
        data: Data | None = None,
        *,
        task: Spec | None = None,
        metrics: Sequence[Spec] | None = None,
        search: Spec | None = None,
        bootstrap: int = 1000,
        **options: Any,
    ) -> Report:
        """Evaluate the model: every metric with its confidence interval, in total and by source length.

        task: evaluate on the test set of this task instead of data.
        metrics: the metrics, by name or with options; by default, those that fit the references.
        bootstrap: number of bootstrap resamples for the confidence intervals; 0 omits the intervals.
        search, options: as in ``predict``.
        """
        predictions = self.evaluation_data(data, task=task, search=search, **options)
        references = [refs[0] for refs in predictions.references]
        return evaluate(predictions, self.metrics(metrics, references, task=task), bootstrap=bootstrap)

    def compare(
        self,
        other: "Model",
        data: Data | None = None,
        *,
        task: Spec | None = None,
        metrics: Sequence[Spec] | None = None,
        search: Spec | None = None,
        **options: Any,
    ) -> Comparison:
        """Compare this model with another on the same data, with a paired significance test; task: as in evaluate."""
        examples = read_test_examples(data, task, self.fields)  # only once: it may be a pipe
        compared = self.metrics(metrics, [example["target"] for example in examples], other, task=task)
        if not self.fields["target"].same(other.fields["target"]):
            by_token = [metric.name for metric in compared if metric.needs == "model"]
            if metrics is not None and by_token:
                raise ConfigError(
                    f"{by_token[0]} counts tokens, and the two models tokenize the targets differently, so their "
                    f"values can't be compared: remove {by_token[0]}"
                )
            compared = [metric for metric in compared if metric.needs != "model"]
        ours, theirs = (model.evaluation_data(examples, search=search, **options) for model in (self, other))
        return compare(ours, theirs, compared)

    def metrics(
        self,
        specs: Sequence[Spec] | None,
        references: Sequence[Any],
        *others: "Model",
        task: Spec | None = None,
    ) -> list[Metric]:
        """The metrics in ``specs``; by default, that of the task and those that fit the references and all models."""
        targets = [model.fields["target"] for model in (self, *others)]
        defaults = [name for target in targets for name in target.metrics(references)]
        if all(isinstance(target, Text) for target in targets):
            defaults.append("exact_match")
        if all(model.predictor.scores_targets for model in (self, *others)):
            defaults += ["token_accuracy", "perplexity"]
        names = dict.fromkeys(defaults)
        by_task = [] if task is None else [get_class("task", parse_spec("task", task)[0]).metric]  # type: ignore[attr-defined]
        names = {name: None for name in names if name not in [parse_spec("metric", spec)[0] for spec in by_task]}
        return [
            build("metric", spec) for spec in specs or [*by_task, *(metric_spec(name, *targets) for name in names)]
        ]

    def resolve_search(self, search: Spec | None, options: Mapping[str, Any]) -> tuple[Search, Constraints | None]:
        """The search, by default the one in the configuration, and the constraints, None if there are none.

        options: options of the search and constraints, by name.
        """
        name, given = parse_spec("search", self.config.search if search is None else search)
        if self.predictor.rolls_out:
            if search is not None:
                raise ConfigError("this model generates values, not tokens, so no search applies: remove search")
            name = "greedy"  # its length options apply to rollouts, too
            given = {
                option: value for option, value in given.items() if option in options_of(get_class("search", name))
            }
        if "name" in options:
            raise ConfigError("name is not an option of a search: choose the search with search=…")
        constraints = {option: value for option, value in options.items() if option in options_of(Constraints)}
        rest = {option: value for option, value in options.items() if option not in constraints}
        cls = get_class("search", name)
        for option in rest:
            if option not in options_of(cls):
                raise _invalid_option(option, name)
        return (
            cls(**validate_options(f"search {name!r}", cls, {**given, **rest})),
            Constraints(**validate_options("constraints", Constraints, constraints)) if constraints else None,
        )


def _invalid_option(option: str, search: str) -> SeqloomError:
    """The error for an option that a search does not have: other searches have it, or none."""
    others = [name for name, cls in parts("search").items() if option in options_of(cls)]
    if others:
        return ConfigError(f"search {search!r} has no option {option}; these searches have it: {', '.join(others)}")
    return unknown(
        f"option of search {search!r}:", option, [*options_of(get_class("search", search)), *options_of(Constraints)]
    )


def load(
    folder: Folder | Sequence[Folder],
    *,
    ensemble_mode: str | None = None,
    device: str = "auto",
    engine: str | None = None,
) -> Model:
    """Load the trained model of a run, or an ensemble of several runs.

    The runs of an ensemble must have the same target vocabulary. Its configuration is that of the first run.

    folder: directory of a run, or several.
    ensemble_mode: what an ensemble averages: ``probs`` (default) or ``log_probs``.
    device: ``cpu``, ``cuda``, …; ``auto`` selects an accelerator if there is one.
    engine: inference engine: None is PyTorch; ``onnx``, ``onnx-int8``, ``ctranslate2`` and ``ctranslate2-int8``
        require an exported run (``seqloom export``).
    """
    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    if not folders:
        raise ConfigError("there is no run to load: give at least one directory")
    models = [_load(one, device, engine) for one in folders]
    first = models[0]
    if len(models) == 1:
        if ensemble_mode is not None:
            raise ConfigError(
                f"ensemble_mode={ensemble_mode!r} needs an ensemble, and {folders[0]} is a single run: give several "
                f"runs"
            )
        return first
    for name, model in zip(folders, models, strict=True):
        if not model.fields["target"].same(first.fields["target"]):
            raise ConfigError(
                f"{folders[0]} and {name} have different target vocabularies and can't be ensembled: train them on "
                f"the same data or on one prepared corpus (seqloom prepare)"
            )
    if any(model.predictor.rolls_out for model in models):
        raise ConfigError("models that generate values instead of tokens can't be ensembled: give one run")
    if not all(model.predictor.scores_targets for model in models):
        raise ConfigError(f"engine {engine!r} does not support ensembles: use another engine, or give one run")
    options = validate_options("an ensemble", Ensemble, {} if ensemble_mode is None else {"mode": ensemble_mode})
    ensemble = Ensemble([model.network for model in models], **options)
    fields = [model.fields for model in models]
    same = all(each.same(first.fields) for each in fields)
    return Model(first.config, first.fields, Predictor(ensemble, first.fields, () if same else fields))


def _load(folder: Folder, device: str, engine: str | None) -> Model:
    run = RunFolder(Path(folder))
    config = run.read_config()
    if not run.weights.exists():
        raise ConfigError(
            f"{folder} has no model.safetensors yet: it is written when training finishes or is interrupted with "
            f"Ctrl-C"
        )
    fields = Fields.load(run.path)
    if engine is not None:
        from seqloom.export import load_engine

        if device not in ("auto", "cpu"):
            raise ConfigError(f"engine {engine!r} runs on the CPU only: remove device={device!r}")
        return Model(config, fields, Predictor(load_engine(run.path, engine), fields))
    sizes = {name: field.size for name, field in fields.items()}
    network = load_network(run, config, sizes).to(device_named(device))
    use_column_major_weights(*network.per_step)
    return Model(config, fields, Predictor(network, fields))


def fit(
    pairs: Pairs | None = None,
    *,
    task: Spec | None = None,
    dev: Pairs | None = None,
    preset: str | None = None,
    hidden_size: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
    display: Display | None = None,
) -> Model:
    """Train a model on pairs of source and target, or on a task.

    task: a task by name, or with options: ``{"name": "dates", "train": 5000}``. The task sets the default tokenizers
        and metric.
    dev: validation data; by default, a part of the pairs is held out.
    preset, hidden_size: architecture and size of the model; by default, they fit the amount of data.
    overrides: other settings of the configuration, by path: ``{"train.epochs": 10, "model.encoder.layers": 2}``.
    out: output directory of the run; by default, the run is deleted.
    quiet: print no progress.

    Ctrl-C (or SIGTERM) finishes the current update, saves the run in ``out``, and raises ``KeyboardInterrupt``.
    """
    model = {k: v for k, v in (("preset", preset), ("hidden_size", hidden_size)) if v is not None}
    config = make_config({"model": model, "data": {"task": task}}, by_path(overrides or {}))
    display = display or (Display() if quiet else display_for())
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = train(
                config,
                Path(out) if out is not None else Path(temporary) / "run",
                display=display,
                train_examples=None if pairs is None else examples_of(pairs, name="train"),
                dev_examples=None if dev is None else examples_of(dev, name="dev"),
                command="seqloom.fit(…)",
            )
            if not folder.finished:
                hint = "nothing was saved, as out is not set" if out is None else folder.resume_hint
                raise KeyboardInterrupt(f"training was interrupted; {hint}")
            return load(folder.path)
    finally:
        display.close()


def read_test_examples(data: Data | None, task: Spec | None, fields: Fields) -> list[Example]:
    """The examples of some data, or of the test set of a task."""
    if (data is None) == (task is None):
        raise ConfigError("give the test data: either data or task")
    return list(examples_of(build("task", task).test if task is not None else data, fields=fields).read())

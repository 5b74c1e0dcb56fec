"""The one door: ``fit`` and ``load`` give a ``Model`` that predicts, scores and evaluates."""

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
from seqloom.errors import InputError, OptionError, SeqloomError, unknown
from seqloom.merge import by_path
from seqloom.metrics import Answers, Comparison, Metric, Report, compare, evaluate
from seqloom.nn.layout import for_few_rows
from seqloom.predictor import Answer, Constraints, Predictor, Score
from seqloom.registry import Spec, build, check, find, parts, split
from seqloom.registry import options as options_of
from seqloom.trace import Trace
from seqloom.train.display import Display, display_for
from seqloom.train.folder import RunFolder
from seqloom.train.judge import fitting
from seqloom.train.start import device as device_named
from seqloom.train.start import load_network, train

Folder = str | Path
Pairs = Iterable[tuple[str, str]] | Iterable[Example]
Inputs = Mapping[str, Any]
Data = Folder | Iterable[Folder] | Examples | Pairs


class Model:
    """A trained model.

    An example to predict is a source, or a mapping with a value for every input: ``{"source": …, "tags": …}``.

    config: how it was made. fields: what its inputs and its target are. network: the torch module.
    """

    def __init__(self, config: Config, fields: Fields, predictor: Predictor) -> None:
        self.config = config
        self.fields = fields
        self.predictor = predictor

    @property
    def network(self) -> Any:
        """The torch module."""
        return self.predictor.network

    @overload
    def predict(self, sources: str, *, search: Spec | None = None, **options: Any) -> str: ...
    @overload
    def predict(self, sources: Inputs, *, search: Spec | None = None, **options: Any) -> Any: ...
    @overload
    def predict(self, sources: Iterable[Any], *, search: Spec | None = None, **options: Any) -> list[Any]: ...
    def predict(self, sources: str | Inputs | Iterable[Any], *, search: Spec | None = None, **options: Any) -> Any:
        """The best answer to an example, or to each of several: a value of the target's field.

        search: how it is found, by name or with options; by default as the run's configuration says.
        options: of the search, for example ``width=10``, and constraints: ``prefix``, ``forbid``, ``require``,
            ``no_repeat``, ``repetition_penalty``, ``grammar``.
        """
        if isinstance(sources, str | Mapping):
            return self.predict([sources], search=search, **options)[0]
        how, constraints = self.asked(search, options)
        found = self.predictor.answers(list(sources), how, constraints=constraints, weights=False)
        return [answers[0].text for answers in found]

    @overload
    def answers(
        self, sources: str | Inputs, *, search: Spec | None = None, weights: bool = True, **options: Any
    ) -> list[Answer]: ...
    @overload
    def answers(
        self, sources: Iterable[Any], *, search: Spec | None = None, weights: bool = True, **options: Any
    ) -> list[list[Answer]]: ...
    def answers(
        self,
        sources: str | Inputs | Iterable[Any],
        *,
        search: Spec | None = None,
        weights: bool = True,
        **options: Any,
    ) -> list[Answer] | list[list[Answer]]:
        """All answers to an example, or to each of several, best first.

        Each with tokens, log-probabilities and (``weights``) attention. search, options: as for ``predict``.
        """
        if isinstance(sources, str | Mapping):
            return self.answers([sources], search=search, weights=weights, **options)[0]
        how, constraints = self.asked(search, options)
        return self.predictor.answers(list(sources), how, constraints=constraints, weights=weights)

    def trace(self, source: str | Inputs, *, search: Spec | None = None, **options: Any) -> Trace:
        """One source through the model, everything recorded: activations, attention, the history of the beam.

        The results are those of ``answers`` with the same search and options.
        """
        how, constraints = self.asked(search, options)
        return self.predictor.trace(source, how, constraints=constraints)

    @overload
    def score(self, sources: str | Inputs, targets: str) -> Score: ...
    @overload
    def score(self, sources: Iterable[Any], targets: Iterable[Any]) -> list[Score]: ...
    def score(self, sources: str | Inputs | Iterable[Any], targets: str | Iterable[Any]) -> Score | list[Score]:
        """The log-probability of a target given its example, or of each of several, in sum and by token."""
        if isinstance(sources, str | Mapping) and isinstance(targets, str):
            return self.predictor.scores([sources], [targets])[0]
        if isinstance(sources, str | Mapping) or isinstance(targets, str):
            raise InputError("a text and a list make no pairs: give two texts, or two lists")
        return self.predictor.scores(list(sources), list(targets))

    def answer_data(
        self, data: Data | None = None, *, task: Spec | None = None, search: Spec | None = None, **options: Any
    ) -> Answers:
        """The model's answers to data with references, or to a task's test set: what metrics are computed from."""
        examples = test_examples(data, task, self.fields)
        if not examples:
            raise InputError("there is nothing to evaluate on: the data holds no pair")
        how, constraints = self.asked(search, options)
        answers = self.predictor.judged(examples, how, constraints=constraints)
        assert answers is not None
        return answers

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
        """How good the answers to some data are: each metric with its interval, and by the source's length.

        task: evaluate on the test set of this task instead of data.
        """
        answers = self.answer_data(data, task=task, search=search, **options)
        references = [refs[0] for refs in answers.references]
        return evaluate(answers, self.metrics(metrics, references, task=task), bootstrap=bootstrap)

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
        """This model against another on the same data, with a paired test of significance; task: as in evaluate."""
        examples = test_examples(data, task, self.fields)  # once: it may be a pipe
        judged = self.metrics(metrics, [example["target"] for example in examples], other, task=task)
        if not self.fields["target"].same(other.fields["target"]):
            counting = [metric.name for metric in judged if metric.needs == "model"]
            if metrics is not None and counting:
                raise OptionError(
                    f"{counting[0]} counts tokens, and the two models cut the targets into different ones: "
                    f"their values can't be compared; leave {counting[0]} out"
                )
            judged = [metric for metric in judged if metric.needs != "model"]
        ours, theirs = (model.answer_data(examples, search=search, **options) for model in (self, other))
        return compare(ours, theirs, judged)

    def metrics(
        self,
        specs: Sequence[Spec] | None,
        references: Sequence[Any],
        *others: "Model",
        task: Spec | None = None,
    ) -> list[Metric]:
        """Metrics by name; by default the task's, and those that fit the references and the targets of all models."""
        targets = [model.fields["target"] for model in (self, *others)]
        usual = [name for target in targets for name in target.metrics(references)]
        if all(isinstance(target, Text) for target in targets):
            usual.append("exact")
        if all(model.predictor.scores_targets for model in (self, *others)):
            usual += ["token_accuracy", "perplexity"]
        names = dict.fromkeys(usual)
        by_task = [] if task is None else [find("task", split("task", task)[0]).metric]  # type: ignore[attr-defined]
        names = {name: None for name in names if name not in [split("metric", spec)[0] for spec in by_task]}
        return [build("metric", spec) for spec in specs or [*by_task, *(fitting(name, *targets) for name in names)]]

    def asked(self, search: Spec | None, options: Mapping[str, Any]) -> tuple[Search, Constraints | None]:
        """How answers are to be found: the search, by default the configuration's, and constraints if there are any.

        options: of both, by name.
        """
        name, given = split("search", self.config.search if search is None else search)
        if self.predictor.rolls_out:
            if search is not None:
                raise OptionError("this model writes values that are not tokens: there is nothing to search")
            name = "greedy"  # whose options are lengths, and these count
            given = {option: value for option, value in given.items() if option in options_of(find("search", name))}
        if "name" in options:
            raise OptionError("search is chosen by search=…, not by name=…")
        constraints = {option: value for option, value in options.items() if option in options_of(Constraints)}
        rest = {option: value for option, value in options.items() if option not in constraints}
        cls = find("search", name)
        for option in rest:
            if option not in options_of(cls):
                raise _refusal(option, name)
        return (
            cls(**check(f"search {name!r}", cls, {**given, **rest})),
            Constraints(**check("constraints", Constraints, constraints)) if constraints else None,
        )


def _refusal(option: str, search: str) -> SeqloomError:
    """Why a search does not take an option: it is another's, or no one's."""
    others = [name for name, cls in parts("search").items() if option in options_of(cls)]
    if others:
        return OptionError(f"search {search!r} has no {option}; these have: {', '.join(others)}")
    return unknown(
        f"option of search {search!r}:", option, [*options_of(find("search", search)), *options_of(Constraints)]
    )


def load(
    folder: Folder | Sequence[Folder],
    *,
    average: str | None = None,
    device: str = "auto",
    engine: str | None = None,
) -> Model:
    """The trained model of a run's folder; of several, all of them as one: an ensemble.

    The runs of an ensemble write the same tokens. Its configuration is that of the first.

    average: what an ensemble averages: ``probabilities`` (by default) or ``log_probabilities``.
    device: ``cpu``, ``cuda``, …; ``auto`` is the best that is there.
    engine: what computes: by default PyTorch; ``onnx``, ``onnx-int8``, ``ctranslate2`` or ``ctranslate2-int8``, for
        which the run must have been exported.
    """
    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    if not folders:
        raise OptionError("no run is named")
    models = [_load(one, device, engine) for one in folders]
    first = models[0]
    if len(models) == 1:
        if average is not None:
            raise OptionError(f"average={average!r} is for an ensemble, and {folders[0]} is one run: name several")
        return first
    for name, model in zip(folders, models, strict=True):
        if not model.fields["target"].same(first.fields["target"]):
            raise OptionError(
                f"{folders[0]} and {name} write different tokens, so they make no ensemble: train them on the same "
                f"pairs, or on one prepared corpus (seqloom prepare)"
            )
    if any(model.predictor.rolls_out for model in models):
        raise OptionError("an ensemble averages probabilities of tokens, and these models write none: name one run")
    if not all(model.predictor.scores_targets for model in models):
        raise OptionError(f"engine {engine!r} searches by itself, with one run: use another for an ensemble")
    options = check("an ensemble", Ensemble, {} if average is None else {"average": average})
    ensemble = Ensemble([model.network for model in models], **options)
    readers = [model.fields for model in models]
    alike = all(reader.same(first.fields) for reader in readers)
    return Model(first.config, first.fields, Predictor(ensemble, first.fields, () if alike else readers))


def _load(folder: Folder, device: str, engine: str | None) -> Model:
    run = RunFolder(Path(folder))
    config = run.read_config()
    if not run.weights.exists():
        raise OptionError(f"{folder} has no weights yet: train it to an end, or stop it by Ctrl-C")
    fields = Fields.load(run.path)
    if engine is not None:
        from seqloom.export import load_engine

        if device not in ("auto", "cpu"):
            raise OptionError(f"engine {engine!r} computes on the CPU, not on {device}")
        return Model(config, fields, Predictor(load_engine(run.path, engine), fields))
    sizes = {name: field.size for name, field in fields.items()}
    network = load_network(run, config, sizes).to(device_named(device))
    for_few_rows(*network.per_step)
    return Model(config, fields, Predictor(network, fields))


def fit(
    pairs: Pairs | None = None,
    *,
    task: Spec | None = None,
    dev: Pairs | None = None,
    preset: str | None = None,
    size: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
    display: Display | None = None,
) -> Model:
    """Train a model on pairs of source and target, or on a task.

    task: by name or with options, ``{"name": "dates", "train": 5000}``; its tokenizers and metric are the defaults.
    dev: what to judge by; by default a part of the pairs is held out.
    preset, size: of the model; by default what suits the amount of data.
    settings: anything else of a configuration, by path: ``{"train.epochs": 10, "model.encoder.layers": 2}``.
    out: the folder to keep the run in; by default it is not kept.
    quiet: show nothing on the way.

    Ctrl-C (or SIGTERM) ends the present update, saves what is kept in ``out``, and raises ``KeyboardInterrupt``.
    """
    model = {k: v for k, v in (("preset", preset), ("size", size)) if v is not None}
    config = make_config({"model": model, "data": {"task": task}}, by_path(settings or {}))
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
                kept = "nothing is kept without out=…" if out is None else folder.to_go_on
                raise KeyboardInterrupt(f"training was stopped before its end; {kept}")
            return load(folder.path)
    finally:
        display.close()


def test_examples(data: Data | None, task: Spec | None, fields: Fields) -> list[Example]:
    """The examples to evaluate on: some data, or the test set of a task."""
    if (data is None) == (task is None):
        raise OptionError("give either data or a task to evaluate on")
    return list(examples_of(build("task", task).test if task is not None else data, fields=fields).read())

"""Validation: metrics on the validation set during training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from seqloom.data.examples import Example
from seqloom.data.fields import Field, Fields
from seqloom.metrics import Metric
from seqloom.models.base import Autoregressive
from seqloom.predictor import Predictor
from seqloom.registry import Spec, build, get_class, options, parse_spec
from seqloom.train.interrupt import Interrupts

MAX_SHOWN = 100
"""Maximum number of characters shown of a value that is not text."""
MAX_METRICS = 2
"""If more metrics fit the target, only the first is computed during training, since they take time."""


class ValidationResult(NamedTuple):
    """Metrics by name, the number of truncated outputs, and one example: source, hypothesis, reference."""

    metrics: Mapping[str, float]
    truncated: int
    sample: tuple[str, str, str]


@dataclass(frozen=True)
class Validator:
    """Decodes the validation set greedily and computes the metrics.

    metrics: metrics by name. primary_metric: name of the validation metric, which selects the best checkpoint.
    """

    examples: Sequence[Example]
    fields: Fields
    metrics: Mapping[str, Metric]
    primary_metric: str

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value of the validation metric is better."""
        return self.metrics[self.primary_metric].higher_is_better

    @property
    def vocab_size(self) -> int | None:
        """Vocabulary size of the target; None if it has no vocabulary."""
        return self.fields["target"].symbols

    def __call__(self, network: Autoregressive, update: int, interrupts: Interrupts) -> ValidationResult | None:
        """Validate a network; None if interrupted."""
        predictions = Predictor(network, self.fields).predict_for_evaluation(
            self.examples, build("search", "greedy"), stop=lambda: interrupts.stop_requested
        )
        if predictions is None:
            return None
        assert predictions.hypotheses is not None
        values = {name: metric.score(predictions) for name, metric in self.metrics.items()}
        index = Random(update).randrange(len(self.examples))  # a different example at each validation
        example = self.examples[index]
        sample = _shorten(example["source"]), _shorten(predictions.hypotheses[index]), _shorten(example["target"])
        return ValidationResult(values, predictions.truncated_count, sample)


def _shorten(value: Any) -> str:
    """A value as text; values that are not strings are shortened."""
    text = str(value)
    return text if isinstance(value, str) or len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def make_validator(
    examples: Sequence[Example], fields: Fields, primary_metric: Spec, others: Sequence[str]
) -> Validator:
    """A validator with the validation metric, and other metrics that are only reported."""
    name, _ = parse_spec("metric", primary_metric)
    specs: dict[str, Any] = {other: metric_spec(other, fields["target"]) for other in others}
    specs = {name: primary_metric, **{other: spec for other, spec in specs.items() if other != name}}
    return Validator(examples, fields, {n: build("metric", spec) for n, spec in specs.items()}, name)


def validation_metrics(suitable: tuple[str, ...]) -> tuple[str, ...]:
    """The suitable metrics that are computed at every validation."""
    return suitable if len(suitable) <= MAX_METRICS else suitable[:1]


def metric_spec(metric: str, *targets: Field) -> dict[str, Any]:
    """A metric with the normalization of the target fields: if they drop case, the metric ignores case too."""
    known = options(get_class("metric", metric))
    normalization = {option: value for field in targets for option, value in field.metric_options.items()}
    return {"name": metric, **{option: value for option, value in normalization.items() if option in known}}

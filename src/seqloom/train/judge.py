"""How good a network is on dev, while it trains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from seqloom.data.examples import Example
from seqloom.data.fields import Field, Fields
from seqloom.metrics import Metric
from seqloom.models.base import Autoregressive
from seqloom.predictor import Predictor
from seqloom.registry import Spec, build, find, options, split
from seqloom.train.interrupt import Interrupts

LONG = 100
"""So many characters are shown of a value that is no text."""
MOST_METRICS = 2
"""A field with more suitable metrics is judged by its first alone while it trains, as they take time."""


class Judgement(NamedTuple):
    """Metrics by name, how many outputs were truncated, and one example: source, answer, reference."""

    metrics: Mapping[str, float]
    truncated: int
    sample: tuple[str, str, str]


@dataclass(frozen=True)
class Judge:
    """Answers dev greedily and measures the answers.

    metrics: by name. decides: the name of the one that says what is best.
    """

    examples: Sequence[Example]
    fields: Fields
    metrics: Mapping[str, Metric]
    decides: str

    @property
    def higher_is_better(self) -> bool:
        """Of the metric that decides."""
        return self.metrics[self.decides].higher_is_better

    @property
    def symbols(self) -> int | None:
        """How many the target has; None: it has none."""
        return self.fields["target"].symbols

    def __call__(self, network: Autoregressive, update: int, interrupts: Interrupts) -> Judgement | None:
        """The judgement; None if interrupted."""
        answers = Predictor(network, self.fields).judged(
            self.examples, build("search", "greedy"), stop=lambda: interrupts.asked
        )
        if answers is None:
            return None
        assert answers.hypotheses is not None
        values = {name: metric.score(answers) for name, metric in self.metrics.items()}
        shown = Random(update).randrange(len(self.examples))  # another one every time
        example = self.examples[shown]
        sample = _shown(example["source"]), _shown(answers.hypotheses[shown]), _shown(example["target"])
        return Judgement(values, answers.truncated_count, sample)


def _shown(value: Any) -> str:
    """A value for people: texts whole, the beginning of anything else."""
    text = str(value)
    return text if isinstance(value, str) or len(text) <= LONG else f"{text[:LONG]}…"


def judge_for(examples: Sequence[Example], fields: Fields, decides: Spec, also: Sequence[str]) -> Judge:
    """A judge with the metric that decides, and others to look at."""
    name, _ = split("metric", decides)
    specs: dict[str, Any] = {name: decides, **{o: fitting(o, fields["target"]) for o in also if o != name}}
    return Judge(examples, fields, {n: build("metric", spec) for n, spec in specs.items()}, name)


def validation_metrics(suitable: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the suitable metrics that are computed at every evaluation."""
    return suitable if len(suitable) <= MOST_METRICS else suitable[:1]


def fitting(metric: str, *targets: Field) -> dict[str, Any]:
    """A metric that overlooks what a field drops, such as case: its model can't know what it never saw."""
    known = options(find("metric", metric))
    dropped = {option: value for field in targets for option, value in field.metric_options.items()}
    return {"name": metric, **{option: value for option, value in dropped.items() if option in known}}

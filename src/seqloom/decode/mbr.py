"""Minimum Bayes risk."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import Limits, Ratio
from seqloom.decode.masks import Masks
from seqloom.decode.noise import Seed
from seqloom.decode.protocol import Finder, StepModel
from seqloom.decode.sample import Sample, Temperature
from seqloom.decode.search import Asked, Read
from seqloom.decode.trail import Nodes
from seqloom.decode.truncation.base import Mass
from seqloom.decode.utility import Utility, by_function, by_metric, check_text, ngram_f
from seqloom.errors import OptionError
from seqloom.nn.probe import Probe, silent
from seqloom.registry import Count, Natural, Spec, build, register


@register("search", "mbr")
class Mbr(Sample):
    """Of many samples the one most like all others: minimum Bayes risk.

        value(y) = 1/M Σ_{m=1…M} utility(y, y_m),    y_1 … y_M sampled from the model

    Eikema and Aziz 2020. Samples that were cut at the maximum length neither count nor answer, unless all were.

    metric: the utility: a metric of texts, by name or with options, negative where less is better; from Python also
        a function of two texts, an answer and what it is compared with. By default the F-score of shared sequences
        of one to four tokens, which knows no text.
    n_best: how many answers are given, each once.
    samples: M.
    seed: another one gives other samples.
    temperature, top_k, top_p, typical_p, min_p, truncate: what is drawn from; see search ``sample``.
    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set, lengths in the training data
        decide.
    unknown: whether an answer may have UNKNOWN in it.
    """

    def __init__(
        self,
        *,
        metric: Spec | Utility | None = None,
        n_best: Count = 1,
        samples: Count = 32,
        seed: Seed = 0,
        temperature: Temperature = 1.0,
        top_k: Count | None = None,
        top_p: Mass | None = None,
        typical_p: Mass | None = None,
        min_p: Mass | None = None,
        truncate: Spec | Sequence[Spec] | None = None,
        min_length: Natural = 0,
        max_length: Count | None = None,
        min_ratio: Ratio = 0.0,
        max_ratio: Ratio | None = None,
        unknown: bool = True,
    ) -> None:
        if n_best > samples:
            raise OptionError(f"n_best={n_best} answers need at least that many samples; there are {samples}")
        super().__init__(
            samples=samples,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            typical_p=typical_p,
            min_p=min_p,
            truncate=truncate,
            min_length=min_length,
            max_length=max_length,
            min_ratio=min_ratio,
            max_ratio=max_ratio,
            unknown=unknown,
        )
        self.utility: Utility | None = metric if callable(metric) else None
        self.metric = None if metric is None or callable(metric) else build("metric", metric)
        if self.metric is not None:
            check_text(self.metric)
        self.answers = n_best

    def __call__(
        self,
        model: StepModel[Asked] | Finder,
        batch: Asked,
        *,
        weights: bool = True,
        masks: Masks | None = None,
        read: Read | None = None,
        limits: Limits | None = None,
        probe: Probe = silent,
        history: list[Nodes] | None = None,
    ) -> list[list[Hypothesis]]:
        """The answers to every source of the batch; see ``Search``."""
        if (self.metric is not None or self.utility is not None) and read is None:
            name = "a function" if self.metric is None else self.metric.name
            raise OptionError(f"mbr by {name} judges texts: it needs read=…, from tokens to text")
        found = super().__call__(
            model, batch, weights=weights, masks=masks, limits=limits, probe=probe, history=history
        )
        return [
            self._ranked(samples, None if read is None else partial(read, sentence))
            for sentence, samples in enumerate(found)
        ]

    def _ranked(self, samples: list[Hypothesis], read: Callable[[list[int]], str] | None) -> list[Hypothesis]:
        """The answers among the samples of one sentence, those of the greatest mean utility first."""
        truncated = 2 * sum(not h.finished for h in samples) > len(samples)
        samples = [h for h in samples if h.finished] or samples
        times = Counter(tuple(h.tokens) for h in samples)
        answers = {tuple(h.tokens): h for h in samples}
        texts = [] if read is None else [read(list(tokens)) for tokens in answers]
        if self.utility is not None:
            utility, name = by_function(self.utility, texts), getattr(self.utility, "__name__", "utility")
        elif self.metric is not None:
            utility = by_metric(self.metric, texts)
            name = self.metric.label if self.metric.higher_is_better else f"−{self.metric.label}"
        else:
            utility, name = ngram_f(list(answers)), "n-gram F"
        values = np.average(utility, axis=1, weights=[times[tokens] for tokens in answers])
        ranked = sorted(zip(answers.values(), values.tolist(), strict=True), key=lambda pair: -pair[1])
        return [
            replace(h, value=value, formula=f"mean {name} with the samples", truncated=truncated)
            for h, value in ranked[: self.answers]
        ]

"""Minimum Bayes risk decoding."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.history import BackPointers
from seqloom.decode.hypothesis import Hypothesis
from seqloom.decode.lengths import Ratio, TrainingLengths
from seqloom.decode.protocol import BatchT, SearchEngine, StepModel
from seqloom.decode.rng import Seed
from seqloom.decode.sample import Sample, Temperature
from seqloom.decode.search import Detokenize
from seqloom.decode.truncation.base import Mass
from seqloom.decode.utility import Utility, function_utility, metric_utility, ngram_f, require_text_metric
from seqloom.errors import ConfigError
from seqloom.nn.probe import Probe, no_probe
from seqloom.registry import Spec, build, register


@register("search", "mbr")
class Mbr(Sample):
    """Minimum Bayes risk (MBR) decoding: the sample that is most similar to all other samples.

        score(y) = 1/M Σ_{m=1…M} utility(y, y_m),    y_1 … y_M sampled from the model

    Eikema and Aziz 2020. Samples truncated at the maximum length are ignored, unless all are.

    metric: the utility: a metric that compares texts, by name or with options (negated if lower is better), or, from
        Python, a function of two texts: a hypothesis and a pseudo-reference. Default: the F-score of shared n-grams
        of 1 to 4 tokens, which needs no text.
    n_best: number of hypotheses returned, without duplicates.
    samples: number of samples M per sentence.
    seed: random seed.
    temperature: temperature of sampling; see search ``sample``.
    top_k: sample only from the k most likely tokens; see search ``sample``.
    top_p: sample only from the nucleus of this probability mass; see search ``sample``.
    typical_p: sample only from the locally typical tokens of this probability mass; see search ``sample``.
    min_p: sample only from tokens with at least this fraction of the highest probability; see search ``sample``.
    truncate: one or several truncations, by name or with options; see search ``sample``.
    min_length: minimum number of tokens, EOS not counted.
    max_length: maximum number of tokens, EOS not counted; if neither it nor max_length_ratio is set, it is derived
        from the lengths in the training data.
    min_length_ratio: minimum number of tokens relative to the source length.
    max_length_ratio: maximum number of tokens relative to the source length.
    allow_unk: allow UNK in the output.
    """

    def __init__(
        self,
        *,
        metric: Spec | Utility | None = None,
        n_best: PositiveInt = 1,
        samples: PositiveInt = 32,
        seed: Seed = 0,
        temperature: Temperature = 1.0,
        top_k: PositiveInt | None = None,
        top_p: Mass | None = None,
        typical_p: Mass | None = None,
        min_p: Mass | None = None,
        truncate: Spec | Sequence[Spec] | None = None,
        min_length: NonNegativeInt = 0,
        max_length: PositiveInt | None = None,
        min_length_ratio: Ratio = 0.0,
        max_length_ratio: Ratio | None = None,
        allow_unk: bool = True,
    ) -> None:
        if n_best > samples:
            raise ConfigError(f"n_best={n_best} is greater than samples={samples}: set samples={n_best} or more")
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
            min_length_ratio=min_length_ratio,
            max_length_ratio=max_length_ratio,
            allow_unk=allow_unk,
        )
        self.utility: Utility | None = metric if callable(metric) else None
        self.metric = None if metric is None or callable(metric) else build("metric", metric)
        if self.metric is not None:
            require_text_metric(self.metric)
        self.n_best = n_best

    def __call__(
        self,
        model: StepModel[BatchT] | SearchEngine,
        batch: BatchT,
        *,
        return_attention: bool = True,
        constraints: TokenConstraints | None = None,
        detokenize: Detokenize | None = None,
        training_lengths: TrainingLengths | None = None,
        probe: Probe = no_probe,
        history: list[BackPointers] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for every source of the batch; see ``Search``."""
        if (self.metric is not None or self.utility is not None) and detokenize is None:
            name = "a function" if self.metric is None else self.metric.name
            raise ConfigError(
                f"search 'mbr' with {name} as its metric compares texts: pass detokenize=, a function of "
                "sentence index and token ids that returns text"
            )
        found = super().__call__(
            model,
            batch,
            return_attention=return_attention,
            constraints=constraints,
            training_lengths=training_lengths,
            probe=probe,
            history=history,
        )
        return [
            self._ranked(samples, None if detokenize is None else partial(detokenize, sentence))
            for sentence, samples in enumerate(found)
        ]

    def _ranked(self, samples: list[Hypothesis], detokenize: Callable[[list[int]], str] | None) -> list[Hypothesis]:
        """The distinct samples of one sentence, ranked by mean utility."""
        truncated = 2 * sum(not h.finished for h in samples) > len(samples)
        samples = [h for h in samples if h.finished] or samples
        counts = Counter(tuple(h.tokens) for h in samples)
        hypotheses = {tuple(h.tokens): h for h in samples}
        texts = [] if detokenize is None else [detokenize(list(tokens)) for tokens in hypotheses]
        if self.utility is not None:
            utility, name = function_utility(self.utility, texts), getattr(self.utility, "__name__", "utility")
        elif self.metric is not None:
            utility = metric_utility(self.metric, texts)
            name = self.metric.label if self.metric.higher_is_better else f"−{self.metric.label}"
        else:
            utility, name = ngram_f(list(hypotheses)), "n-gram F"
        scores = np.average(utility, axis=1, weights=[counts[tokens] for tokens in hypotheses])
        ranked = sorted(zip(hypotheses.values(), scores.tolist(), strict=True), key=lambda pair: -pair[1])
        return [
            replace(h, score=score, score_formula=f"mean {name} with the samples", truncated=truncated)
            for h, score in ranked[: self.n_best]
        ]

"""Sampling."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from seqloom.decode.lengths import Lengths, Ratio
from seqloom.decode.noise import Seed, uniform
from seqloom.decode.search import Search
from seqloom.decode.truncation.base import Mass, Truncation
from seqloom.decode.truncation.min_p import MinP
from seqloom.decode.truncation.top_k import TopK
from seqloom.decode.truncation.top_p import TopP
from seqloom.decode.truncation.typical_p import TypicalP
from seqloom.decode.walk import Choice, Rows
from seqloom.registry import Count, Natural, Spec, build, register

Temperature = Annotated[float, Field(ge=1e-6, allow_inf_nan=False)]
"""So that what is divided by it stays a number; colder than that nothing is drawn but the likeliest."""


@register("search", "sample")
class Sample(Search):
    """Tokens drawn from the model's distribution, step after step.

        y_t ~ q,    q_v ∝ p(v | y_1 … y_{t−1}, source)^{1/temperature}, over the tokens that are allowed

    One uniform number for each (seed, number of the sample, step) decides, for all sentences alike: so a sentence has
    the same samples in any batch, and the first of them are the same however many are drawn. The log-probabilities
    of an answer are the model's own, before temperature and truncation.

    samples: how many for each sentence, by their log-probability, those that were cut at the end; the same may
        come twice.
    seed: another one gives other samples.
    temperature: below 1 it favours the likely, above 1 the unlikely.
    top_k: only from the k likeliest tokens (Fan et al. 2018).
    top_p: only from the fewest likeliest tokens that have this much probability together (Holtzman et al. 2020).
    typical_p: only from the fewest tokens with this much probability together whose −log q is nearest to its mean,
        the entropy (Meister et al. 2023).
    min_p: only from tokens at least this share as likely as the likeliest (Nguyen et al. 2025).
    truncate: any truncation by name or with options, or several: ``{name: top_k, k: 5}``; the four above are short
        for one each. Each looks at what those before it left, in the order of this list, and keeps tokens that are
        equal to the last one in.
    min_length, max_length: how many tokens an answer has, END not counted.
    min_ratio, max_ratio: the same, per step of the source. With neither maximum set, lengths in the training data
        decide.
    unknown: whether an answer may have UNKNOWN in it.
    """

    def __init__(
        self,
        *,
        samples: Count = 1,
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
        lengths = Lengths(min_length, max_length, min_ratio, max_ratio)
        super().__init__(lengths, unknown, starts=samples, n_best=samples)
        self.seed = seed
        self.temperature = temperature
        self.truncations: list[Truncation] = []
        if top_k is not None:
            self.truncations.append(TopK(k=top_k))
        if top_p is not None:
            self.truncations.append(TopP(mass=top_p))
        if typical_p is not None:
            self.truncations.append(TypicalP(mass=typical_p))
        if min_p is not None:
            self.truncations.append(MinP(share=min_p))
        specs = [truncate] if isinstance(truncate, str | Mapping) else truncate or ()
        self.truncations += [build("truncation", spec) for spec in specs]

    def choose(self, log_probs_BKV: Tensor, rows: Rows) -> Choice:
        cumulated_BKV = self._probs(log_probs_BKV).cumsum(-1)
        uniform_BK = uniform(self.seed, rows.t, self.starts).to(cumulated_BKV)[rows.origin_BK]
        # The first v whose cumulated probability exceeds the number; of a v that is not allowed it never does.
        number_BK1 = (uniform_BK * cumulated_BKV[..., -1])[..., None]
        token_BK1 = torch.searchsorted(cumulated_BKV, number_BK1, right=True).clamp(max=log_probs_BKV.shape[-1] - 1)
        log_prob_BK = log_probs_BKV.gather(-1, token_BK1)[..., 0]
        return Choice(None, token_BK1[..., 0], rows.total_BK + log_prob_BK, log_prob_BK)

    def _probs(self, log_probs_BKV: Tensor) -> Tensor:
        """q, before it is normalised."""
        probs_BKV = torch.softmax(
            log_probs_BKV.to(torch.promote_types(log_probs_BKV.dtype, torch.float32)) / self.temperature, -1
        )
        for truncation in self.truncations:
            probs_BKV = truncation(probs_BKV)
        return probs_BKV

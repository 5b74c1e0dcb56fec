"""Sampling."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from seqloom.decode.lengths import LengthLimits, Ratio
from seqloom.decode.loop import BeamState, Candidates
from seqloom.decode.rng import Seed, uniform
from seqloom.decode.search import Search
from seqloom.decode.truncation.base import Mass, Truncation
from seqloom.decode.truncation.min_p import MinP
from seqloom.decode.truncation.top_k import TopK
from seqloom.decode.truncation.top_p import TopP
from seqloom.decode.truncation.typical_p import TypicalP
from seqloom.registry import Spec, build, register

Temperature = Annotated[float, Field(ge=1e-6, allow_inf_nan=False)]
"""At least 1e-6, so that the division does not overflow; below that, only the most likely token would be drawn."""


@register("search", "sample")
class Sample(Search):
    """Ancestral sampling: every token is drawn from the model's distribution.

        y_t ~ q,    q_v ∝ p(v | y_1 … y_{t−1}, source)^{1/temperature}, over the allowed tokens

    Each draw uses one uniform random number per (seed, index of the sample, step), the same for all sentences. So a
    sentence has the same samples in any batch, and drawing more samples does not change the first ones. Hypotheses
    report the model's log-probabilities, before temperature and truncation.

    samples: number of samples per sentence, sorted by log-probability, truncated ones last; there may be duplicates.
    seed: random seed.
    temperature: divisor of the log-probabilities: below 1 it favors likely tokens, above 1 unlikely ones.
    top_k: sample only from the k most likely tokens (Fan et al. 2018).
    top_p: nucleus sampling: sample only from the smallest set of most likely tokens with this probability mass
        (Holtzman et al. 2020).
    typical_p: sample only from the smallest set of tokens with this probability mass whose −log q is closest to its
        mean, the entropy (Meister et al. 2023).
    min_p: sample only from tokens with at least this fraction of the highest probability (Nguyen et al. 2025).
    truncate: one or several truncations, by name or with options, like ``{name: top_k, k: 5}``; top_k, top_p,
        typical_p and min_p are abbreviations for one each. They are applied in this order, each to the tokens that
        the previous one kept; tokens tied with the last one kept are kept, too.
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
        samples: PositiveInt = 1,
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
        lengths = LengthLimits(min_length, max_length, min_length_ratio, max_length_ratio)
        super().__init__(lengths, allow_unk, initial_rows=samples, n_best=samples)
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

    def select(self, log_probs_BKV: Tensor, beam: BeamState) -> Candidates:
        cumulative_BKV = self._probs(log_probs_BKV).cumsum(-1)
        uniform_BK = uniform(self.seed, beam.t, self.initial_rows).to(cumulative_BKV)[beam.origin_BK]
        # The first v whose cumulative probability exceeds the number; never a v that is not allowed.
        number_BK1 = (uniform_BK * cumulative_BKV[..., -1])[..., None]
        token_BK1 = torch.searchsorted(cumulative_BKV, number_BK1, right=True).clamp(max=log_probs_BKV.shape[-1] - 1)
        log_prob_BK = log_probs_BKV.gather(-1, token_BK1)[..., 0]
        return Candidates(None, token_BK1[..., 0], beam.total_BK + log_prob_BK, log_prob_BK)

    def _probs(self, log_probs_BKV: Tensor) -> Tensor:
        """q, not normalized."""
        probs_BKV = torch.softmax(
            log_probs_BKV.to(torch.promote_types(log_probs_BKV.dtype, torch.float32)) / self.temperature, -1
        )
        for truncation in self.truncations:
            probs_BKV = truncation(probs_BKV)
        return probs_BKV

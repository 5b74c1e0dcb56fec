"""The score that ranks hypotheses: log-probability with length penalty and coverage penalty."""

from typing import Annotated, Literal, TypeVar

from pydantic import Field
from torch import Tensor

from seqloom.errors import ConfigError

LengthPenalty = Literal["none", "average", "wu"]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
N = TypeVar("N", float, Tensor)


class HypothesisScorer:
    """score = log_prob / divisor(n) + β Σ_s log min(Σ_t w_ts, 1)

    n is the number of tokens including EOS, and w_ts the attention weight of target step t on source position s.

        none:     divisor = 1
        average:  divisor = n
        wu:       divisor = ((5 + n) / 6)^α        Wu et al. 2016; the second term is their coverage penalty

    No divisor decreases with n, and the coverage term is never above 0. So no continuation of a partial hypothesis
    scores above log_prob / divisor(maximum n), with the log_prob of the partial hypothesis: early stopping is exact.
    """

    def __init__(
        self, length_penalty: LengthPenalty = "none", alpha: float | None = None, *, coverage_penalty: float = 0.0
    ) -> None:
        if alpha is not None and length_penalty != "wu":
            raise ConfigError(
                f"alpha={alpha} has no effect with length_penalty={length_penalty!r}: set length_penalty='wu', or "
                "remove alpha"
            )
        self.length_penalty = length_penalty
        self.alpha = 0.6 if alpha is None else alpha
        self.coverage_penalty = coverage_penalty
        formulas = {"none": "log_prob", "average": "log_prob / n", "wu": f"log_prob / ((5 + n) / 6)^{self.alpha:g}"}
        self.score_formula: str = formulas[length_penalty]
        if coverage_penalty:
            self.score_formula += f" + {coverage_penalty:g} Σ_s log min(Σ_t w_ts, 1)"

    def apply_length_penalty(self, log_prob: Tensor, n: N) -> Tensor:
        """log_prob / divisor(n): the score without the coverage term, and its upper bound."""
        if self.length_penalty == "none":
            return log_prob
        return log_prob / (n if self.length_penalty == "average" else ((5 + n) / 6) ** self.alpha)

    def coverage_term(self, covered_XS: Tensor, mask_XS: Tensor) -> Tensor:
        """β Σ_s log min(covered_s, 1) over non-padding positions; −∞ if one of them received no attention at all."""
        return self.coverage_penalty * covered_XS.clamp(max=1).masked_fill(~mask_XS, 1).log().sum(1)

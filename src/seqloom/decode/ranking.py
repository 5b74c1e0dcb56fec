"""What answers are ranked by: their log-probability, made comparable over lengths, and what they left unread."""

from typing import Annotated, Literal, TypeVar

from pydantic import Field
from torch import Tensor

from seqloom.errors import OptionError

NormalisationName = Literal["none", "average", "wu"]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
N = TypeVar("N", float, Tensor)


class Ranking:
    """value = log_prob / divisor(n) + β Σ_s log min(Σ_t w_ts, 1)

    With n the number of tokens with END, and w_ts the weight of attention that step t gave to the source's step s.

        none:     divisor = 1
        average:  divisor = n
        wu:       divisor = ((5 + n) / 6)^α        Wu et al. 2016, as the second term, the coverage penalty

    No divisor falls with n, and the penalty is never above 0: so of all answers that begin alike none can exceed
    log_prob / divisor(longest n), with the log_prob of their beginning. This is what makes early stopping exact.
    """

    def __init__(
        self, normalisation: NormalisationName = "none", alpha: float | None = None, *, coverage: float = 0.0
    ) -> None:
        if alpha is not None and normalisation != "wu":
            raise OptionError(f"alpha={alpha} belongs to normalisation='wu', and {normalisation!r} has no use for it")
        self.normalisation = normalisation
        self.alpha = 0.6 if alpha is None else alpha
        self.coverage = coverage
        formulas = {"none": "log_prob", "average": "log_prob / n", "wu": f"log_prob / ((5 + n) / 6)^{self.alpha:g}"}
        self.formula: str = formulas[normalisation]
        if coverage:
            self.formula += f" + {coverage:g} Σ_s log min(Σ_t w_ts, 1)"

    def divide(self, log_prob: Tensor, n: N) -> Tensor:
        """log_prob / divisor(n): the value before any penalty, which it can't exceed."""
        if self.normalisation == "none":
            return log_prob
        return log_prob / (n if self.normalisation == "average" else ((5 + n) / 6) ** self.alpha)

    def penalty(self, covered_XS: Tensor, mask_XS: Tensor) -> Tensor:
        """β Σ_s log min(covered_s, 1) over the real steps; −∞ if one of them got no weight at all."""
        return self.coverage * covered_XS.clamp(max=1).masked_fill(~mask_XS, 1).log().sum(1)

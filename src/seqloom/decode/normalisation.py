"""Length normalisation: what makes answers of different lengths comparable."""

from typing import Literal, TypeVar

from torch import Tensor

from seqloom.errors import OptionError

NormalisationName = Literal["none", "average", "wu"]
N = TypeVar("N", float, Tensor)


class Normalisation:
    """value = log_prob / divisor(n), n being the number of tokens with END.

        none:     1
        average:  n
        wu:       ((5 + n) / 6)^α        Wu et al. 2016

    No divisor falls with n, so of all answers that begin alike none can exceed log_prob / divisor(longest n),
    with the log_prob of their beginning: this is what makes early stopping exact.
    """

    def __init__(self, name: NormalisationName = "none", alpha: float | None = None) -> None:
        if alpha is not None and name != "wu":
            raise OptionError(f"alpha={alpha} belongs to normalisation='wu', and {name!r} has no use for it")
        self.name = name
        self.alpha = 0.6 if alpha is None else alpha
        formulas = {"none": "log_prob", "average": "log_prob / n", "wu": f"log_prob / ((5 + n) / 6)^{self.alpha:g}"}
        self.formula: str = formulas[name]

    def divide(self, log_prob: Tensor, n: N) -> Tensor:
        """The value of an answer of n tokens."""
        if self.name == "none":
            return log_prob
        return log_prob / (n if self.name == "average" else ((5 + n) / 6) ** self.alpha)

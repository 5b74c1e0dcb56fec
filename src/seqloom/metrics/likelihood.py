"""What the model itself thinks of the references: loss, perplexity and token accuracy, all by teacher forcing.

They count tokens as the model's tokenizer cuts them, so models compare by them only under the same tokenizer. Of
several references the first one counts.
"""

import numpy as np

from seqloom import __version__
from seqloom.metrics.base import Answers, Floats, Metric, rate
from seqloom.registry import register


class TokenMetric(Metric):
    """A metric of the first reference's tokens, END included."""

    needs = "model"

    def signature(self, answers: Answers) -> str:
        return f"{self.name}|reference:first|per:token|end:yes|version:seqloom-{__version__}"


@register("metric", "loss")
class Loss(TokenMetric):
    """Loss: the negative log-probability of the reference in nats per token, with no label smoothing.

    loss = −Σ log p(yₜ | y₁…yₜ₋₁, x) / number of tokens
    """

    name = "loss"
    higher_is_better = False
    digits = 4

    def statistics(self, answers: Answers) -> Floats:
        return answers.token_counts("log_probs", self.name) * (-1, 1)

    def value(self, totals: Floats) -> Floats:
        return np.asarray(totals[..., 0] / totals[..., 1])


@register("metric", "perplexity")
class Perplexity(Loss):
    """Perplexity: between how many tokens, were they equally likely, the model is in doubt at each step.

    perplexity = exp(loss)
    """

    name = "perplexity"
    digits = 2

    def value(self, totals: Floats) -> Floats:
        with np.errstate(over="ignore"):  # beyond all floats it is infinite
            return np.exp(super().value(totals))


@register("metric", "token_accuracy")
class TokenAccuracy(TokenMetric):
    """Token accuracy: the percentage of the reference's tokens that the model held most probable there."""

    name = "token_accuracy"
    higher_is_better = True

    def statistics(self, answers: Answers) -> Floats:
        return answers.token_counts("correct", self.name)

    def value(self, totals: Floats) -> Floats:
        return rate(totals)

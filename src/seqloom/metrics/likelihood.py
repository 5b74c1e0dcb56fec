"""Loss, perplexity and token accuracy of the references under the model, with teacher forcing.

They count tokens of the model's tokenizer, so only models with the same tokenizer can be compared by them. If an
example has several references, the first one counts.
"""

import numpy as np

from seqloom import __version__
from seqloom.metrics.base import EvaluationData, Floats, Metric, rate
from seqloom.registry import register


class TokenMetric(Metric):
    """Base class of metrics of the first reference's tokens, EOS included."""

    needs = "model"

    def signature(self, data: EvaluationData) -> str:
        return f"{self.name}|reference:first|per:token|end:yes|version:seqloom-{__version__}"


@register("metric", "loss")
class Loss(TokenMetric):
    """Loss: the negative log-likelihood of the references in nats per token, without label smoothing.

    loss = −Σ log p(yₜ | y₁…yₜ₋₁, x) / number of tokens
    """

    name = "loss"
    higher_is_better = False
    digits = 4

    def statistics(self, data: EvaluationData) -> Floats:
        return data.token_counts("log_probs", self.name) * (-1, 1)

    def value(self, totals: Floats) -> Floats:
        return np.asarray(totals[..., 0] / totals[..., 1])


@register("metric", "perplexity")
class Perplexity(Loss):
    """Perplexity of the references under the model, per token: the exponential of the loss.

    perplexity = exp(loss)
    """

    name = "perplexity"
    digits = 2

    def value(self, totals: Floats) -> Floats:
        with np.errstate(over="ignore"):  # too large for a float: infinite
            return np.exp(super().value(totals))


@register("metric", "token_accuracy")
class TokenAccuracy(TokenMetric):
    """Token accuracy: percentage of reference tokens that the model ranks first under teacher forcing."""

    name = "token_accuracy"
    higher_is_better = True

    def statistics(self, data: EvaluationData) -> Floats:
        return data.token_counts("correct", self.name)

    def value(self, totals: Floats) -> Floats:
        return rate(totals)

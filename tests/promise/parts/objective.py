"""A confidence penalty (Pereyra et al. 2017)."""

import torch

from seqloom import register
from seqloom.batch import shift
from seqloom.nn.outputs import Categorical
from seqloom.train.objectives import Objective


@register("objective", "outside_confidence_penalty")
class OutsideConfidencePenalty(Objective):
    """Teacher forcing, minus λ times the entropy of the predicted distributions; only the likelihood is reported.

    weight: weight λ of the entropy.
    """

    def __init__(self, *, weight: float = 0.1):
        self.weight = weight

    def __call__(self, model, batch, *, update, carry=None):
        memory, target = model.encode(batch), batch.target
        inputs = shift(model.output.start(memory), target)
        decoded = model(inputs, memory, attention=model.output.needs_attention)
        loss = model.output.loss(decoded, memory, target)
        if isinstance(model.output, Categorical):
            log_p = model.output.log_probs(decoded.as_rows(0, inputs.shape[1]), memory)
            entropy = torch.special.entr(log_p.exp()).sum(-1)[target.mask.flatten()].sum()
            loss = loss._replace(total=loss.total - self.weight * entropy)
        return loss, None

"""Scheduled sampling: training on what the model itself would write."""

from typing import Annotated, Any

import torch

from seqloom.batch import Batch, shift
from seqloom.errors import InputError
from seqloom.models.base import Autoregressive
from seqloom.nn.memory import DecoderOutput
from seqloom.nn.outputs import Loss
from seqloom.registry import Of, Spec, build, register
from seqloom.train.objectives.base import Objective
from seqloom.train.sampling import Feed, Sampling


@register("objective", "scheduled_sampling")
class ScheduledSampling(Objective):
    """Scheduled sampling: a coin decides at every step whether the true step before is fed, or the model's own.

    Under teacher forcing a model only sees correct prefixes; in use it sees its own (exposure bias). With probability
    ε the true step is fed; ε falls as training goes on. No gradient flows through what is fed. Bengio et al. 2015.

    decay: ε over the updates.
    """

    def __init__(self, *, decay: Annotated[Spec, Of("sampling")] = "linear") -> None:
        self.decay: Sampling = build("sampling", decay)

    def __call__(self, model: Autoregressive, batch: Batch, *, update: int, carry: Any = None) -> tuple[Loss, Any]:
        return scheduled_loss(model, batch, self.decay.share(update), feed=self.decay.feed), None

    def logged(self, update: int) -> dict[str, float]:
        return {"gold": self.decay.share(update)}


def scheduled_loss(model: Autoregressive, batch: Batch, gold: float, *, feed: Feed = "argmax") -> Loss:
    """The loss of a batch where the true token before is fed with probability ``gold``, else the model's own.

    Each step is judged by the true target, whatever was fed; after an END of the model's own it goes on. With
    ``gold`` = 1 it is teacher forcing, ``model.loss``. Coins and samples come from PyTorch's default generator.
    """
    if gold == 1:
        return model.loss(batch)
    if batch.target is None:
        raise InputError("a loss needs a target, and this batch has none")
    memory = model.encode(batch)
    state = model.initial_state(memory)
    true_BT = shift(model.output.start(memory), batch.target)
    own_BT = torch.rand(true_BT.shape[:2], device=true_BT.device) >= gold
    fed_B = true_BT[:, 0]  # before the first step there is nothing of the model's own
    steps: list[DecoderOutput] = []
    for t in range(true_BT.shape[1]):
        if t > 0:
            with torch.no_grad():
                drawn_B = model.output.sample(steps[-1], memory, temperature=float(feed == "sample"))
            own_B = own_BT[:, t].view(-1, *[1] * (drawn_B.dim() - 1))
            fed_B = torch.where(own_B, drawn_B, true_BT[:, t])
        steps.append(model.step(fed_B, state, memory))
        state = steps[-1].state
    weights = [step.attention for step in steps if step.attention is not None]
    decoded = DecoderOutput(
        torch.stack([step.features for step in steps], 1),
        torch.stack(weights, 1) if weights and model.output.needs_attention else None,
        state,
    )
    return model.output.loss(decoded, memory, batch.target)

"""Scheduled sampling: training on the model's own predictions."""

from typing import Annotated, Any

import torch

from seqloom.batch import Batch, shift
from seqloom.errors import InputError
from seqloom.models.base import Autoregressive
from seqloom.nn.memory import DecoderOutput
from seqloom.nn.outputs import Loss
from seqloom.registry import Of, Spec, build, register
from seqloom.train.objectives.base import Objective
from seqloom.train.sampling import Feed, TeacherForcingDecay


@register("objective", "scheduled_sampling")
class ScheduledSampling(Objective):
    """Scheduled sampling: feeds the decoder the reference token or, at random, its own prediction.

    With teacher forcing, a model is trained on reference prefixes only, but at inference it continues its own output
    (exposure bias). Here each input token is the reference with probability ε, the teacher forcing ratio, which
    decreases during training. No gradient flows through the choice. Bengio et al. 2015.

    decay: decay schedule of the teacher forcing ratio over the updates.
    """

    def __init__(self, *, decay: Annotated[Spec, Of("scheduled_sampling")] = "linear") -> None:
        self.decay: TeacherForcingDecay = build("scheduled_sampling", decay)

    def __call__(self, model: Autoregressive, batch: Batch, *, update: int, carry: Any = None) -> tuple[Loss, Any]:
        return scheduled_loss(model, batch, self.decay.ratio(update), feed=self.decay.feed), None

    def logged(self, update: int) -> dict[str, float]:
        return {"teacher_forcing_ratio": self.decay.ratio(update)}


def scheduled_loss(
    model: Autoregressive, batch: Batch, teacher_forcing_ratio: float, *, feed: Feed = "argmax"
) -> Loss:
    """The loss of a batch with scheduled sampling.

    The loss of each time step compares with the reference, whatever token was fed, and decoding continues after the
    model predicts EOS. Random numbers come from PyTorch's default generator.

    teacher_forcing_ratio: probability of feeding the reference token; 1 is teacher forcing, ``model.loss``.
    """
    if teacher_forcing_ratio == 1:
        return model.loss(batch)
    if batch.target is None:
        raise InputError("the loss needs a target, but this batch has none")
    memory = model.encode(batch)
    state = model.initial_state(memory)
    reference_BT = shift(model.output.start(memory), batch.target)
    predicted_BT = torch.rand(reference_BT.shape[:2], device=reference_BT.device) >= teacher_forcing_ratio
    fed_B = reference_BT[:, 0]  # the first input is always the start value
    steps: list[DecoderOutput] = []
    for t in range(reference_BT.shape[1]):
        if t > 0:
            with torch.no_grad():
                drawn_B = model.output.sample(steps[-1], memory, temperature=float(feed == "sample"))
            predicted_B = predicted_BT[:, t].view(-1, *[1] * (drawn_B.dim() - 1))
            fed_B = torch.where(predicted_B, drawn_B, reference_BT[:, t])
        steps.append(model.step(fed_B, state, memory))
        state = steps[-1].state
    attention = [step.attention for step in steps if step.attention is not None]
    decoded = DecoderOutput(
        torch.stack([step.features for step in steps], 1),
        torch.stack(attention, 1) if attention and model.output.needs_attention else None,
        state,
    )
    return model.output.loss(decoded, memory, batch.target)

"""Scheduled sampling: training on what the model itself would write.

Under teacher forcing a model only ever sees right beginnings; in use it sees its own. So at every step and in every
row a coin decides what is fed: with probability ε the true token before, else the model's own. ε falls as training
goes on (Bengio et al. 2015). What is fed is a choice, through which no gradient flows.
"""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field

from seqloom.batch import Batch, shift
from seqloom.errors import InputError
from seqloom.models.base import Autoregressive
from seqloom.nn.memory import DecoderOutput
from seqloom.nn.outputs import Loss
from seqloom.registry import Count, Natural, Share, register

Feed = Literal["argmax", "sample"]


class Sampling:
    """How often training feeds the true token, ε, over its steps; the first step is number 1.

        ε = 1                              up to step = start
            max(minimum, decay(step − start))    from there on

    minimum: ε never falls below it.
    start: so many steps of pure teacher forcing come first.
    feed: what the model feeds of its own, its best token (``argmax``) or one drawn at random (``sample``).
    """

    def __init__(self, *, minimum: Share = 0.0, start: Natural = 0, feed: Feed = "argmax") -> None:
        self.minimum = minimum
        self.start = start
        self.feed = feed

    def share(self, step: int) -> float:
        """ε at a step."""
        return 1.0 if step <= self.start else max(self.minimum, self.decay(step - self.start))

    def decay(self, i: int) -> float:
        """ε at the i-th step after the start."""
        raise NotImplementedError


@register("sampling", "constant")
class Constant(Sampling):
    """The same share of true tokens all the time; 1 is teacher forcing, 0 feeds the model its own tokens alone.

    gold: ε.
    start: so many steps of pure teacher forcing come first.
    feed: what the model feeds of its own, its best token (``argmax``) or one drawn at random (``sample``).
    """

    def __init__(self, *, gold: Share = 1.0, start: Natural = 0, feed: Feed = "argmax") -> None:
        super().__init__(start=start, feed=feed)
        self.gold = gold

    def decay(self, i: int) -> float:
        return self.gold


@register("sampling", "linear")
class Linear(Sampling):
    """A share of true tokens that falls in a straight line: ε = max(minimum, 1 − i / steps).

    steps: after how many the line reaches zero.
    minimum: ε never falls below it.
    start: so many steps of pure teacher forcing come first.
    feed: what the model feeds of its own, its best token (``argmax``) or one drawn at random (``sample``).
    """

    def __init__(
        self, *, steps: Count = 10_000, minimum: Share = 0.0, start: Natural = 0, feed: Feed = "argmax"
    ) -> None:
        super().__init__(minimum=minimum, start=start, feed=feed)
        self.steps = steps

    def decay(self, i: int) -> float:
        return 1 - i / self.steps


@register("sampling", "exponential")
class Exponential(Sampling):
    """A share of true tokens that falls fast at first: ε = max(minimum, kⁱ).

    k: below 1; half of ε is gone after log 2 / (1 − k) steps, with 0.9998 about 3,500.
    minimum: ε never falls below it.
    start: so many steps of pure teacher forcing come first.
    feed: what the model feeds of its own, its best token (``argmax``) or one drawn at random (``sample``).
    """

    def __init__(
        self,
        *,
        k: Annotated[float, Field(gt=0, lt=1)] = 0.9998,
        minimum: Share = 0.0,
        start: Natural = 0,
        feed: Feed = "argmax",
    ) -> None:
        super().__init__(minimum=minimum, start=start, feed=feed)
        self.k = k

    def decay(self, i: int) -> float:
        return self.k**i


@register("sampling", "inverse_sigmoid")
class InverseSigmoid(Sampling):
    """A share of true tokens that stays high, then falls, then stays low: ε = max(minimum, k / (k + e^(i/k))).

    k: at least 1; ε is a half after k log k steps, with 1,000 about 6,900.
    minimum: ε never falls below it.
    start: so many steps of pure teacher forcing come first.
    feed: what the model feeds of its own, its best token (``argmax``) or one drawn at random (``sample``).
    """

    def __init__(
        self,
        *,
        k: Annotated[float, Field(ge=1)] = 1000.0,
        minimum: Share = 0.0,
        start: Natural = 0,
        feed: Feed = "argmax",
    ) -> None:
        super().__init__(minimum=minimum, start=start, feed=feed)
        self.k = k

    def decay(self, i: int) -> float:
        x = i / self.k - math.log(self.k)  # k / (k + e^(i/k)) = σ(−x); e^(i/k) itself would overflow one day
        return math.exp(-x) / (1 + math.exp(-x)) if x > 0 else 1 / (1 + math.exp(x))


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

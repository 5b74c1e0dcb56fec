"""Learning rate schedules, as factors of the optimizer's learning rate.

Every schedule starts with a linear warmup: the factor rises to 1 over the first ``warmup`` updates. Then it follows
the formula of the schedule. A step is an update; steps are counted from 1.
"""

import math
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PositiveInt

from seqloom.errors import ConfigError
from seqloom.registry import Fraction, register


class Schedule:
    """Base class of learning rate schedules.

        factor(step) = step / warmup         if step < warmup
                       after_warmup(step)    otherwise

    steps: total number of updates, if known.

    warmup: number of warmup updates, over which the learning rate rises linearly from 0; 0 disables warmup.
    """

    def __init__(self, steps: int | None = None, *, warmup: NonNegativeInt = 0) -> None:
        self.steps = steps
        self.warmup = warmup

    def factor(self, step: int) -> float:
        """The factor of the learning rate at a step, counted from 1."""
        return step / self.warmup if step < self.warmup else self.after_warmup(step)

    def after_warmup(self, step: int) -> float:
        """The factor at a step after the warmup."""
        raise NotImplementedError

    def on_validation(self, value: float) -> None:
        """Called after each validation with the validation metric, negated if higher is better."""

    def state(self) -> dict[str, Any]:
        """The state to save in a checkpoint, as JSON types."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that ``state()`` returned."""


@register("schedule", "constant")
class Constant(Schedule):
    """Constant learning rate after the warmup.

    warmup: number of warmup updates, over which the learning rate rises linearly from 0; 0 disables warmup.
    """

    def after_warmup(self, step: int) -> float:
        return 1.0


@register("schedule", "noam")
class Noam(Schedule):
    """Noam schedule of the Transformer: linear warmup, then inverse square root decay.

        factor(step) = min(step / warmup, √(warmup / step))

    Vaswani et al. 2017. Their learning rate, size^−0.5 · min(step^−0.5, step · warmup^−1.5), is this factor times its
    peak (size · warmup)^−0.5, reached at step = warmup. Here ``lr`` of the optimizer is the peak: to reproduce
    theirs, set it to that value, which is 7e-4 for a hidden size of 512 and 4,000 warmup updates.

    warmup: number of warmup updates, over which the learning rate rises linearly; also sets the speed of the decay.
    """

    def __init__(self, steps: int | None = None, *, warmup: PositiveInt = 4000) -> None:
        super().__init__(steps, warmup=warmup)

    def after_warmup(self, step: int) -> float:
        return math.sqrt(self.warmup / step)


@register("schedule", "inverse_sqrt")
class InverseSqrt(Schedule):
    """Inverse square root decay after the warmup, with its own timescale.

        factor(step) = 1 / √(1 + (step − warmup) / timescale)

    If ``timescale`` equals ``warmup`` it is ``noam``; a separate timescale allows a short warmup with slow decay, or
    no warmup at all. Zhai et al. 2022, "Scaling vision transformers".

    warmup: number of warmup updates, over which the learning rate rises linearly from 0; 0 disables warmup.
    timescale: updates after the warmup until the factor is 1/√2; after three times as many it is ½.
    """

    def __init__(
        self, steps: int | None = None, *, warmup: NonNegativeInt = 0, timescale: PositiveInt = 4000
    ) -> None:
        super().__init__(steps, warmup=warmup)
        self.timescale = timescale

    def after_warmup(self, step: int) -> float:
        return 1 / math.sqrt(1 + (step - self.warmup) / self.timescale)


@register("schedule", "cosine")
class Cosine(Schedule):
    """Cosine decay (cosine annealing) after the warmup, to a minimum at the last update.

        factor(step) = minimum + (1 − minimum) · (1 + cos(π · (step − warmup) / (steps − warmup))) / 2

    Loshchilov and Hutter 2017, without restarts. After the last update it stays at the minimum.

    warmup: number of warmup updates, over which the learning rate rises linearly from 0; 0 disables warmup.
    minimum: final learning rate, as a fraction of the peak.
    """

    def __init__(self, steps: int | None = None, *, warmup: NonNegativeInt = 0, minimum: Fraction = 0.0) -> None:
        if steps is None:
            raise ConfigError("schedule 'cosine' requires the total number of steps: pass steps")
        if warmup >= steps:
            raise ConfigError(
                f"schedule 'cosine': warmup={warmup} is invalid: it must be less than the {steps} updates of training"
            )
        super().__init__(steps, warmup=warmup)
        self.end = steps
        self.minimum = minimum

    def after_warmup(self, step: int) -> float:
        progress = min(1.0, (step - self.warmup) / (self.end - self.warmup))
        return self.minimum + (1 - self.minimum) * (1 + math.cos(math.pi * progress)) / 2


@register("schedule", "plateau")
class Plateau(Schedule):
    """Reduce on plateau: lowers the learning rate when the validation metric stops improving.

    warmup: number of warmup updates, over which the learning rate rises linearly from 0; 0 disables warmup.
    decay: factor that the learning rate is multiplied by on a plateau.
    patience: number of validations in a row without improvement that make a plateau.
    minimum: lower bound of the learning rate, as a fraction of the peak.
    """

    def __init__(
        self,
        steps: int | None = None,
        *,
        warmup: NonNegativeInt = 0,
        decay: Annotated[float, Field(gt=0, lt=1)] = 0.5,
        patience: PositiveInt = 3,
        minimum: Fraction = 0.0,
    ) -> None:
        super().__init__(steps, warmup=warmup)
        self.decay = decay
        self.patience = patience
        self.minimum = minimum
        self.reached = 1.0
        self.best: float | None = None
        self.waited = 0

    def after_warmup(self, step: int) -> float:
        return self.reached

    def factor(self, step: int) -> float:
        # A reduction also applies during a long warmup.
        return min(super().factor(step), self.reached)

    def on_validation(self, value: float) -> None:
        if self.best is None or value < self.best:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited == self.patience:
            self.reached, self.waited = max(self.minimum, self.reached * self.decay), 0

    def state(self) -> dict[str, Any]:
        return {"reached": self.reached, "best": self.best, "waited": self.waited}

    def restore(self, state: dict[str, Any]) -> None:
        self.reached, self.best, self.waited = state["reached"], state["best"], state["waited"]

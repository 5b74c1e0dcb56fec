"""Schedules: the learning rate over the steps of training, as a factor on the optimiser's rate.

Every schedule begins with a warm-up: over its first ``warmup`` steps the factor rises in a straight line to 1, and
then takes the schedule's own course. The first step is number 1.
"""

import math
from typing import Annotated, Any

from pydantic import Field

from seqloom.errors import OptionError
from seqloom.registry import Count, Natural, Share, register


class Schedule:
    """The learning rate over the steps of training.

        factor(step) = step / warmup    up to step = warmup
                       course(step)     from there on

    steps: how many there will be, where that is known.

    warmup: how many steps the factor takes to rise to 1.
    """

    def __init__(self, steps: int | None = None, *, warmup: Natural = 0) -> None:
        self.steps = steps
        self.warmup = warmup

    def factor(self, step: int) -> float:
        """What the optimiser's rate is multiplied with at a step; the first step is number 1."""
        return step / self.warmup if step < self.warmup else self.course(step)

    def course(self, step: int) -> float:
        """The factor after the warm-up."""
        raise NotImplementedError

    def observe(self, value: float) -> None:
        """Hear what the last evaluation gave; the lower the better."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to keep of it, as JSON can hold it."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` gave."""


@register("schedule", "constant")
class Constant(Schedule):
    """The same rate at every step, after a warm-up.

    warmup: how many steps the rate takes to rise.
    """

    def course(self, step: int) -> float:
        return 1.0


@register("schedule", "noam")
class Noam(Schedule):
    """The Transformer's: a linear rise, then a fall with the inverse square root of the step.

        factor(step) = min(step / warmup, √(warmup / step))

    Vaswani et al. 2017. Their rate, size^−0.5 · min(step^−0.5, step · warmup^−1.5), is this factor with a peak of
    (size · warmup)^−0.5 at step = warmup. Here the peak is the optimiser's rate: for theirs, set it to that value,
    which is 7e-4 with their 512 and 4,000.

    warmup: how many steps the rate takes to rise; the fall takes its speed from it.
    """

    def __init__(self, steps: int | None = None, *, warmup: Count = 4000) -> None:
        super().__init__(steps, warmup=warmup)

    def course(self, step: int) -> float:
        return math.sqrt(self.warmup / step)


@register("schedule", "inverse_sqrt")
class InverseSqrt(Schedule):
    """A fall with the inverse square root of the steps since the warm-up, at a speed of its own.

        course(step) = 1 / √(1 + (step − warmup) / timescale)

    With a timescale of ``warmup`` it is ``noam``; of its own, warm-up can be short and the fall slow, or there can be
    no warm-up at all. (Zhai et al. 2022, "Scaling vision transformers".)

    warmup: how many steps the rate takes to rise.
    timescale: in how many steps after that 1/√2 of it is left; in three times as many, a half.
    """

    def __init__(self, steps: int | None = None, *, warmup: Natural = 0, timescale: Count = 4000) -> None:
        super().__init__(steps, warmup=warmup)
        self.timescale = timescale

    def course(self, step: int) -> float:
        return 1 / math.sqrt(1 + (step - self.warmup) / self.timescale)


@register("schedule", "cosine")
class Cosine(Schedule):
    """Half a cosine from the full rate down to a minimum at the last step.

        course(step) = minimum + (1 − minimum) · (1 + cos(π · (step − warmup) / (steps − warmup))) / 2

    Loshchilov and Hutter 2017, without restarts. After the last step it stays at the minimum.

    warmup: how many steps the rate takes to rise.
    minimum: what is left of the rate in the end, as a share of it.
    """

    def __init__(self, steps: int | None = None, *, warmup: Natural = 0, minimum: Share = 0.0) -> None:
        if steps is None:
            raise OptionError("schedule 'cosine' ends at the last step: say how many steps training has")
        if warmup >= steps:
            raise OptionError(f"schedule 'cosine': warmup={warmup} leaves nothing of {steps} steps: make it shorter")
        super().__init__(steps, warmup=warmup)
        self.end = steps
        self.minimum = minimum

    def course(self, step: int) -> float:
        done = min(1.0, (step - self.warmup) / (self.end - self.warmup))
        return self.minimum + (1 - self.minimum) * (1 + math.cos(math.pi * done)) / 2


@register("schedule", "plateau")
class Plateau(Schedule):
    """The same rate as long as evaluations get better, then a smaller one.

    warmup: how many steps the rate takes to rise.
    decay: what the rate is multiplied with when there is no progress.
    patience: so many evaluations in a row without a new best are no progress.
    minimum: the smallest factor.
    """

    def __init__(
        self,
        steps: int | None = None,
        *,
        warmup: Natural = 0,
        decay: Annotated[float, Field(gt=0, lt=1)] = 0.5,
        patience: Count = 3,
        minimum: Share = 0.0,
    ) -> None:
        super().__init__(steps, warmup=warmup)
        self.decay = decay
        self.patience = patience
        self.minimum = minimum
        self.reached = 1.0
        self.best: float | None = None
        self.waited = 0

    def course(self, step: int) -> float:
        return self.reached

    def factor(self, step: int) -> float:
        # What evaluations have taken off holds during a long warm-up, too.
        return min(super().factor(step), self.reached)

    def observe(self, value: float) -> None:
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

"""Decay schedules of the teacher forcing ratio, for scheduled sampling (Bengio et al. 2015).

With teacher forcing, a model is trained on reference prefixes only, but at inference it continues its own output.
This mismatch is called exposure bias. Scheduled sampling reduces it: at each time step of each sentence, the decoder
is fed the reference token with probability ε, the teacher forcing ratio, and its own prediction otherwise. ε
decreases during training. No gradient flows through the choice of the token.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from seqloom.registry import Fraction, register

Feed = Literal["argmax", "sample"]


class TeacherForcingDecay:
    """Base class: the teacher forcing ratio ε as a function of the update, counted from 1.

        ε = 1                                     if update ≤ start
            max(minimum, decay(update − start))   otherwise

    minimum: lower bound of the teacher forcing ratio.
    start: number of updates with pure teacher forcing before the decay starts.
    feed: ``argmax`` feeds the most likely token of the model, ``sample`` one drawn from its distribution.
    """

    def __init__(self, *, minimum: Fraction = 0.0, start: NonNegativeInt = 0, feed: Feed = "argmax") -> None:
        self.minimum = minimum
        self.start = start
        self.feed = feed

    def ratio(self, update: int) -> float:
        """The teacher forcing ratio at an update."""
        return 1.0 if update <= self.start else max(self.minimum, self.decay(update - self.start))

    def decay(self, i: int) -> float:
        """The ratio at the i-th update after ``start``, without the lower bound."""
        raise NotImplementedError


@register("scheduled_sampling", "constant")
class Constant(TeacherForcingDecay):
    """Constant teacher forcing ratio.

    teacher_forcing_ratio: probability of feeding the reference token; 1 is teacher forcing, 0 feeds only predictions.
    start: number of updates with pure teacher forcing before the decay starts.
    feed: ``argmax`` feeds the most likely token of the model, ``sample`` one drawn from its distribution.
    """

    def __init__(
        self, *, teacher_forcing_ratio: Fraction = 1.0, start: NonNegativeInt = 0, feed: Feed = "argmax"
    ) -> None:
        super().__init__(start=start, feed=feed)
        self.teacher_forcing_ratio = teacher_forcing_ratio

    def decay(self, i: int) -> float:
        return self.teacher_forcing_ratio


@register("scheduled_sampling", "linear")
class Linear(TeacherForcingDecay):
    """Linear decay of the teacher forcing ratio: ε = max(minimum, 1 − i / steps).

    steps: number of updates until the ratio reaches 0, if ``minimum`` allows.
    minimum: lower bound of the teacher forcing ratio.
    start: number of updates with pure teacher forcing before the decay starts.
    feed: ``argmax`` feeds the most likely token of the model, ``sample`` one drawn from its distribution.
    """

    def __init__(
        self,
        *,
        steps: PositiveInt = 10_000,
        minimum: Fraction = 0.0,
        start: NonNegativeInt = 0,
        feed: Feed = "argmax",
    ) -> None:
        super().__init__(minimum=minimum, start=start, feed=feed)
        self.steps = steps

    def decay(self, i: int) -> float:
        return 1 - i / self.steps


@register("scheduled_sampling", "exponential")
class Exponential(TeacherForcingDecay):
    """Exponential decay of the teacher forcing ratio: ε = max(minimum, kⁱ).

    k: base of the decay, below 1; the ratio halves every log 2 / (1 − k) updates, with 0.9998 about 3,500.
    minimum: lower bound of the teacher forcing ratio.
    start: number of updates with pure teacher forcing before the decay starts.
    feed: ``argmax`` feeds the most likely token of the model, ``sample`` one drawn from its distribution.
    """

    def __init__(
        self,
        *,
        k: Annotated[float, Field(gt=0, lt=1)] = 0.9998,
        minimum: Fraction = 0.0,
        start: NonNegativeInt = 0,
        feed: Feed = "argmax",
    ) -> None:
        super().__init__(minimum=minimum, start=start, feed=feed)
        self.k = k

    def decay(self, i: int) -> float:
        return self.k**i


@register("scheduled_sampling", "inverse_sigmoid")
class InverseSigmoid(TeacherForcingDecay):
    """Inverse sigmoid decay of the teacher forcing ratio: ε = max(minimum, k / (k + e^(i/k))).

    The ratio first stays near 1, then falls, then stays near the minimum.

    k: speed of the decay, at least 1; the ratio is ½ after k log k updates, with 1,000 about 6,900.
    minimum: lower bound of the teacher forcing ratio.
    start: number of updates with pure teacher forcing before the decay starts.
    feed: ``argmax`` feeds the most likely token of the model, ``sample`` one drawn from its distribution.
    """

    def __init__(
        self,
        *,
        k: Annotated[float, Field(ge=1)] = 1000.0,
        minimum: Fraction = 0.0,
        start: NonNegativeInt = 0,
        feed: Feed = "argmax",
    ) -> None:
        super().__init__(minimum=minimum, start=start, feed=feed)
        self.k = k

    def decay(self, i: int) -> float:
        x = i / self.k - math.log(self.k)  # k / (k + e^(i/k)) = σ(−x); computing e^(i/k) would overflow
        return math.exp(-x) / (1 + math.exp(-x)) if x > 0 else 1 / (1 + math.exp(x))

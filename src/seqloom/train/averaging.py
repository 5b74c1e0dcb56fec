"""Averages of weights: of several checkpoints, or of all steps so far."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.errors import SizeError


def average(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of the state dicts of one architecture, summed in float64; what holds no fractions is the last one's.

    They are read one after another, so that an iterator that loads them needs the memory of one at a time.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for last in states:
        if count and _shapes(last) != _shapes(sums):
            raise SizeError("weights of different architectures have no average: names or shapes differ")
        count += 1
        for name, tensor in last.items():
            wide = tensor.double() if tensor.is_floating_point() else tensor
            sums[name] = sums[name] + wide if name in sums and tensor.is_floating_point() else wide
    if not count:
        raise SizeError("an average needs at least one set of weights, and there is none")
    return {n: (s / count).to(last[n].dtype) if last[n].is_floating_point() else s.clone() for n, s in sums.items()}


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}


class MovingAverage:
    """A mean of the weights after every step, the weight of a step falling exponentially with its age.

        w̄ = d w̄ + (1 − d) w        d = min(decay, (1 + n) / (10 + n)), n the number of updates before

    The smaller d of the first steps lets go of the random weights that training began with.

    model: whose parameters are averaged; w̄ begins as they are.
    decay: the largest d; 1 / (1 − decay) is about the number of steps that count.
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        self.decay = decay
        self.updates = 0
        self.means = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after one more step."""
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(list(self.means.values()), list(model.parameters()), 1 - d)
        self.updates += 1

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """The model with the averaged weights in place of its own, for as long as the context lasts."""
        own = [parameter.detach().clone() for parameter in model.parameters()]
        self._put(model, list(self.means.values()))
        try:
            yield
        finally:
            self._put(model, own)

    @staticmethod
    @torch.no_grad()
    def _put(model: nn.Module, values: list[Tensor]) -> None:
        torch._foreach_copy_(list(model.parameters()), values)

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to keep: the number of ``updates``, and the ``means`` by name."""
        return {"updates": self.updates, "means": {name: mean.clone() for name, mean in self.means.items()}}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` gave."""
        if _shapes(state["means"]) != _shapes(self.means):
            raise SizeError("these averaged weights are of another architecture: names or shapes differ")
        self.updates = state["updates"]
        for name, mean in self.means.items():
            mean.copy_(state["means"][name])

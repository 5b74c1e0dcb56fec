"""Checkpoint averaging, and the exponential moving average (EMA) of the weights."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.errors import ShapeError


def average_checkpoints(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several state dicts of one architecture, summed in float64; integer tensors are the last one's.

    The state dicts are consumed one by one, so an iterator that loads them holds only one in memory.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for last in states:
        if count and _shapes(last) != _shapes(sums):
            raise ShapeError("can't average weights of different architectures: names or shapes differ")
        count += 1
        for name, tensor in last.items():
            wide = tensor.double() if tensor.is_floating_point() else tensor
            sums[name] = sums[name] + wide if name in sums and tensor.is_floating_point() else wide
    if not count:
        raise ShapeError("can't average an empty list of state dicts: give at least one")
    return {n: (s / count).to(last[n].dtype) if last[n].is_floating_point() else s.clone() for n, s in sums.items()}


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}


class ExponentialMovingAverage:
    """Exponential moving average (EMA) of the weights.

        w̄ = d w̄ + (1 − d) w        d = min(decay, (1 + n) / (10 + n)), n the number of previous updates

    A smaller d in the first updates reduces the influence of the initial random weights.

    model: the model whose parameters are averaged; w̄ is initialized with their current values.
    decay: maximum of d; the average covers about the last 1 / (1 − decay) updates.
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        self.decay = decay
        self.updates = 0
        self.means = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Update the average with the current weights of the model."""
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(list(self.means.values()), list(model.parameters()), 1 - d)
        self.updates += 1

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """A context manager in which the model has the averaged weights instead of its own."""
        own = [parameter.detach().clone() for parameter in model.parameters()]
        self._copy_into(model, list(self.means.values()))
        try:
            yield
        finally:
            self._copy_into(model, own)

    @staticmethod
    @torch.no_grad()
    def _copy_into(model: nn.Module, values: list[Tensor]) -> None:
        torch._foreach_copy_(list(model.parameters()), values)

    def state(self) -> dict[str, Any]:
        """The state to save in a checkpoint: the number of ``updates``, and the ``means`` by name."""
        return {"updates": self.updates, "means": {name: mean.clone() for name, mean in self.means.items()}}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state that ``state()`` returned."""
        if _shapes(state["means"]) != _shapes(self.means):
            raise ShapeError("the averaged weights belong to another architecture: names or shapes differ")
        self.updates = state["updates"]
        for name, mean in self.means.items():
            mean.copy_(state["means"][name])

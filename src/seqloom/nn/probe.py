"""A probe sees every tensor worth looking at, and may put another in its place.

A probe is a function ``probe(name, tensor) → tensor``, given per call. Names are paths: layers and directions are
joined by dots, and the step of a recurrence or a decoder follows in brackets: ``encoder.0.backward.forget[3]``. One
that records returns what it was given; one that intervenes returns something else. ``silent``, the default, does
neither.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Probe = Callable[[str, Tensor], Tensor]


def silent(name: str, tensor: Tensor) -> Tensor:
    """The probe that is not there."""
    return tensor


def within(probe: Probe, place: str) -> Probe:
    """``probe`` with ``place`` before all names it sees."""
    if probe is silent:
        return silent
    return lambda name, tensor: probe(place + name, tensor)


def at_step(probe: Probe, t: int) -> Probe:
    """``probe`` with the number of a step after all names it sees."""
    if probe is silent:
        return silent
    return lambda name, tensor: probe(f"{name}[{t}]", tensor)


def each_step(probe: Probe, T: int, *, growing: bool = False) -> Probe:
    """``probe`` on one step after another of what a decoder computes for T steps at once, … T S.

    It sees the names and shapes of a search that takes these steps one by one, … 1 S. With K beams, … K·T S, every
    step has K rows.

    growing: S is the past, and grows with every step; the last sees all of it.
    """
    if probe is silent:
        return silent

    def each(name: str, tensor: Tensor) -> Tensor:
        S = tensor.shape[-1]
        steps = []
        for t, step in enumerate(tensor.reshape(*tensor.shape[:-2], -1, T, S).unbind(-2)):
            later = T - 1 - t if growing else 0
            steps.append(F.pad(probe(f"{name}[{t}]", step[..., : S - later]), (0, later)))
        return torch.stack(steps, -2).flatten(-3, -2)

    return each

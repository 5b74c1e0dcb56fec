"""A probe sees every tensor worth looking at, and may put another in its place.

A probe is a function ``probe(name, tensor) → tensor``, given per call. Names are paths: layers and directions are
joined by dots, and the step of a recurrence follows in brackets: ``encoder.0.backward.forget[3]``. One that records
returns what it was given; one that intervenes returns something else. ``silent``, the default, does neither.
"""

from collections.abc import Callable

from torch import Tensor

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

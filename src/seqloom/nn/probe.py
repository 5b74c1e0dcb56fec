"""A probe sees every tensor worth looking at, and may put another in its place.

A probe is a function ``probe(name, tensor) → tensor``, given per call. Names are paths: layers and directions are
joined by dots, the step of a recurrence stands in brackets: ``encoder.0.backward[3].forget``. One that records
returns what it was given; one that intervenes returns something else. ``silent``, the default, does neither.
"""

from collections.abc import Callable

from torch import Tensor

Probe = Callable[[str, Tensor], Tensor]


def silent(name: str, tensor: Tensor) -> Tensor:
    """The probe that is not there."""
    return tensor


def within(probe: Probe, place: str) -> Probe:
    """``probe`` with ``place`` in front of all names it hears."""
    if probe is silent:
        return silent
    return lambda name, tensor: probe(place + name, tensor)

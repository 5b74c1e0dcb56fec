"""Probes: forward hooks on named activations, not probing classifiers; a probe records or replaces activations.

A probe is a function ``probe(name, tensor) → tensor``, passed to a call of the model. It is called with every named
activation, such as a gate, a hidden state or attention weights. A probe that records returns the tensor it was given;
a probe that intervenes (ablation, activation patching) returns another tensor of the same shape, which the model uses
instead. ``no_probe``, the default, does neither.

Names are paths: layers and directions are joined by dots, and the time step of a recurrent network or a decoder
follows in brackets, as in ``encoder.0.backward.forget[3]``.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Probe = Callable[[str, Tensor], Tensor]


def no_probe(name: str, tensor: Tensor) -> Tensor:
    """The default probe: returns every activation unchanged. Code may skip calling it."""
    return tensor


def scoped(probe: Probe, prefix: str) -> Probe:
    """``probe``, with ``prefix`` before all names it gets."""
    if probe is no_probe:
        return no_probe
    return lambda name, tensor: probe(prefix + name, tensor)


def at_step(probe: Probe, t: int) -> Probe:
    """``probe``, with the step number ``[t]`` after all names it gets."""
    if probe is no_probe:
        return no_probe
    return lambda name, tensor: probe(f"{name}[{t}]", tensor)


def each_step(probe: Probe, T: int, *, causal: bool = False) -> Probe:
    """``probe``, called once per step for activations … T S that a decoder computes for T steps in parallel.

    The probe gets the same names and shapes as in incremental decoding, … 1 S. With K beams, an activation has the
    shape … K·T S, and the probe gets K rows per step.

    causal: S are the steps up to the current one, so S grows with every step and only the last step has all S.
    """
    if probe is no_probe:
        return no_probe

    def call_per_step(name: str, tensor: Tensor) -> Tensor:
        S = tensor.shape[-1]
        steps = []
        for t, step in enumerate(tensor.reshape(*tensor.shape[:-2], -1, T, S).unbind(-2)):
            future = T - 1 - t if causal else 0
            steps.append(F.pad(probe(f"{name}[{t}]", step[..., : S - future]), (0, future)))
        return torch.stack(steps, -2).flatten(-3, -2)

    return call_per_step

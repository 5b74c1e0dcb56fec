"""Ensembles: several models as one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from seqloom.batch import Batch, Padded
from seqloom.decode.protocol import StepModel
from seqloom.errors import OptionError, SizeError
from seqloom.nn.memory import DecoderState, NextStep
from seqloom.nn.probe import Probe, silent, within

Average = Literal["probabilities", "log_probabilities"]
Batches = Batch | Sequence[Batch]
"""One batch for all models, or one for each, where they read the same sources in tokens of their own."""


@dataclass(frozen=True)
class EnsembleMemory:
    """The memories of several models, whole.

    same_steps: whether the attention of all is about the same steps: those of one source, or of their past.
    """

    members: tuple[Any, ...]
    same_steps: bool

    @property
    def mask(self) -> Tensor:
        """The first model's, for attention that all share."""
        mask: Tensor = self.members[0].mask
        return mask

    def select(self, rows: Tensor) -> "EnsembleMemory":
        """The memories of some of the sentences."""
        return EnsembleMemory(tuple(memory.select(rows) for memory in self.members), self.same_steps)


class Ensemble:
    """Models of any architectures with the same target vocabulary, as one that search and ``score`` can work on.

        probabilities:      p(v) = 1/M Σ_m p_m(v)
        log_probabilities:  p(v) ∝ exp(1/M Σ_m log p_m(v))

    Its attention is the mean of theirs, if all have some and on the same steps; else it has none. Lengths relative to
    the source are those of the first model's.

    models: at least one.
    average: of what.
    """

    def __init__(self, models: Sequence[StepModel[Batch]], *, average: Average = "probabilities") -> None:
        if not models:
            raise OptionError("an ensemble of no models: give at least one")
        self.models = list(models)
        self.average = average

    @property
    def training(self) -> bool:
        """Whether any of the models is."""
        return any(model.training for model in self.models)

    @property
    def max_length(self) -> int | None:
        """How many tokens all of the models can write."""
        return min((model.max_length for model in self.models if model.max_length is not None), default=None)

    @property
    def attends_to(self) -> Literal["source", "past"] | None:
        """What the attention of all is about."""
        return self.models[0].attends_to if len({model.attends_to for model in self.models}) == 1 else None

    def encode(self, batch: Batches, *, probe: Probe = silent) -> EnsembleMemory:
        """The memories of all models."""
        batches = [batch] * len(self.models) if isinstance(batch, Batch) else list(batch)
        if len(batches) != len(self.models):
            raise SizeError(
                f"{len(batches)} batches for {len(self.models)} models: give one for each, or one for all"
            )
        if len({one.rows for one in batches}) > 1:
            raise SizeError(f"batches of {[one.rows for one in batches]} sentences: each needs the same ones")
        members = tuple(
            model.encode(one, probe=within(probe, f"{m}/"))
            for m, (model, one) in enumerate(zip(self.models, batches, strict=True))
        )
        return EnsembleMemory(members, isinstance(batch, Batch) and self.attends_to is not None)

    def initial_state(self, memory: EnsembleMemory) -> DecoderState:
        """The states of all models, in one."""
        states = [model.initial_state(one) for model, one in self._each(memory)]
        return DecoderState({f"{m}/{name}": t for m, state in enumerate(states) for name, t in state.items()})

    def next_log_probs(
        self, last: Tensor, state: DecoderState, memory: EnsembleMemory, *, probe: Probe = silent
    ) -> NextStep:
        """A step of every model, one after the other: only the sum of their log-probabilities is held."""
        sum_RV: Tensor | None = None
        weights: list[Tensor | None] = []
        new = DecoderState()
        for m, (model, one) in enumerate(self._each(memory)):
            own = f"{m}/"
            mine = DecoderState({n.removeprefix(own): t for n, t in state.items() if n.startswith(own)})
            step = model.next_log_probs(last, mine, one, probe=within(probe, own))
            sum_RV = self._add(sum_RV, step.log_probs)
            weights.append(step.attention)
            new.update({f"{own}{name}": tensor for name, tensor in step.state.items()})
        assert sum_RV is not None
        return NextStep(self._mean(sum_RV), _mean_weights(weights, memory.same_steps), new)

    def log_probs(self, target: Padded, memory: EnsembleMemory) -> Iterator[Tensor]:
        """The log-probabilities of all tokens at the steps of a known target, a few steps at a time."""
        members = [model.log_probs(target, one) for model, one in self._each(memory)]
        for chunks in zip(*members, strict=True):
            sum_BTV: Tensor | None = None
            for chunk in chunks:
                sum_BTV = self._add(sum_BTV, chunk)
            assert sum_BTV is not None
            yield self._mean(sum_BTV)

    def _each(self, memory: EnsembleMemory) -> Iterator[tuple[StepModel[Batch], Any]]:
        """Every model with its own memory."""
        return zip(self.models, memory.members, strict=True)

    def _add(self, sum_XV: Tensor | None, log_probs_XV: Tensor) -> Tensor:
        if sum_XV is None:
            return log_probs_XV
        sizes = sum_XV.shape[-1], log_probs_XV.shape[-1]
        if len(set(sizes)) > 1:
            raise SizeError(f"target vocabularies of {sorted(sizes)} tokens: an ensemble's models must share one")
        return sum_XV.logaddexp(log_probs_XV) if self.average == "probabilities" else sum_XV + log_probs_XV

    def _mean(self, sum_XV: Tensor) -> Tensor:
        if self.average == "probabilities":
            return sum_XV - math.log(len(self.models))
        return torch.log_softmax(sum_XV / len(self.models), -1)


def _mean_weights(weights: Sequence[Tensor | None], same_steps: bool) -> Tensor | None:
    present = [one for one in weights if one is not None]
    if not same_steps or len(present) < len(weights) or len({one.shape for one in present}) > 1:
        return None
    return torch.stack(present).mean(0)
